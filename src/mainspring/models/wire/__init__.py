"""Wire protocols: how requests and answers look as bytes. Pure encoding and decoding, no I/O."""
