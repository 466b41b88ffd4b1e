"""Logs in files and folders: segments, partition folders, data folders.

opening           turns a path into one of the next three; kafkarec.logs has what users open
segment_file      one file
partition_folder  a partition folder
data_folder       a broker's data folder
log_reading       ranges and read_committed over several segments
splits            ranges of bytes of a segment, for several tasks
names             parses names of files and folders
log_files         opens the files of a log
tiered            objects of tiered storage (KIP-405)
ranges            ranges of offsets and timestamps, index lookups
batch_frames      fingerprints and checksums of single batches, preallocated zeros, for growing logs
follower          reads a log while a broker writes to it
raw_batches       bytes of whole batches, unchanged
segment_summary   first and last offsets, codecs of a segment (kafkarec ls)
good_batches      the good batches of a log in offset order, others set apart
names_by_content  the base offsets of segments whose names are wrong
recorded_ends     what other files say of how far a log reached
lost_parts        what they say of folders and first segments that are gone
rebuild_folder    all side files of a log, made again
unnamed_files     finds files with batches that do not have Kafka's names
other_file_types  files that are no logs, by their first bytes
output_rules      refuses outputs that would overwrite inputs
"""
