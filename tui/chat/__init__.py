"""The conversation on screen: markdown to lines, the message view, the composer, what turns asking into commands."""
