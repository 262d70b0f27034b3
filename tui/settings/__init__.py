"""What can be set, where each value comes from, and the file that holds it. No Textual."""
