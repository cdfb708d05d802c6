"""What the wire protocols share: framing, decoding, message normalization, schemas, and errors."""
