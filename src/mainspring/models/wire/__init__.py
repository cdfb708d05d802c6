"""Wire protocols: the bytes of requests and responses. Pure encoding and decoding, no I/O."""
