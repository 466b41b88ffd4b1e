"""Logs in files and folders: segments, partition folders, data folders.

opening           turns a path into one of the next three; kafkarec.logs has what users open
segment_file      one file
log_folders       a partition folder, a broker's data folder
log_reading       ranges and read_committed over several segments; ranges of bytes for several tasks
names             parses names of files and folders
tiered            objects of tiered storage (KIP-405)
finder            from paths, globs and folders key=value to logs: kafkarec.find
globs             globs of files and folders
key_folders       folders key=value, and conditions on them
ranges            ranges of offsets and timestamps, index lookups
first_and_last    the first and the last rows of what is read
follower          reads a log while a broker writes to it
raw_batches       bytes, fingerprints and checksums of single batches, preallocated zeros
segment_summary   first and last offsets, codecs of a segment (kafkarec ls)
good_batches      the good batches of a log in offset order, others set apart
names_by_content  the base offsets of segments whose names are wrong
recorded_ends     what other files say of how far a log reached, of folders and first segments that are gone
rebuild_folder    all side files of a log, made again
first_bytes       files that are no logs, and batches without Kafka's names, by their first bytes
output_rules      refuses outputs that would overwrite inputs
"""
