"""The TLA+ specs and the classes that TLC needs beside them: files, and no Python."""
