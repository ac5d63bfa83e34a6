"""lmckpt in training frameworks and other libraries, one module for each."""
