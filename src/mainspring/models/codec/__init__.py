"""Common parts of the wire protocols: framing, decoding, message normalization, schemas, and errors."""
