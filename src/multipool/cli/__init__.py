"""The command line: one file a command, which parses, calls the room that does the work, prints.

``main.COMMANDS`` lists the commands. A command's file is imported when it is called, so
``multipool --help`` answers at once.
"""
