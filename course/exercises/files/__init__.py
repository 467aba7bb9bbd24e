"""Starting files and solutions that no lesson contains; the others are the lessons themselves."""
