"""Operations on whole logs, above `storage`: a package or module for each, none imported by what it works on."""
