"""The default transport: HTTP/1.1 on asyncio."""
