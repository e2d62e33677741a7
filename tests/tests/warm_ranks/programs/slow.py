"""A module that is imported for as long as a file is not there."""
import os
import time

directory = os.environ["SLOW_DIRECTORY"]
open(os.path.join(directory, "importing"), "w").close()
while not os.path.exists(os.path.join(directory, "go")):
    time.sleep(0.01)
