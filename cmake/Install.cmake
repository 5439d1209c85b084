# Everything below the prefix besides the programs.
