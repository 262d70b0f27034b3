"""The screens: the main one, and the small ones that open over it."""
