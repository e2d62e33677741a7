"""Starts as many programs do: it imports what it needs, with all that this needs in turn."""

import argparse
import concurrent.futures.process
import ctypes
import json
import logging.config
import multiprocessing.pool
import pickle
import statistics
import sys
import tempfile
import urllib.request

print(sum(1 for module in sys.modules.values() if getattr(module, "__file__", None)))
