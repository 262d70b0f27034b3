"""`cutaway bench`: this machine's speed, measured through the protocol as any client sees it. No torch, no Textual."""
