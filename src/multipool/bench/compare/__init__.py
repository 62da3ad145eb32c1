"""Which method for which kind of stream; nothing stands here yet."""
