"""Peak memory of zoo models at their natural sizes: python memory.py MEASURE_MEMORY NAME... ("networks" names all)."""

import subprocess
import sys

from cases import zoo, zoo_file

names = [n for given in sys.argv[2:] for n in (zoo.NETWORKS if given == "networks" else [given])]
SIZES = {"gpt2_small": ["sequence=16", "past=48"]}
arguments = [a for name in names for a in (*SIZES.get(name, []), str(zoo_file(name, zoo.SIZES[name])))]
sys.exit(subprocess.run([sys.argv[1], *arguments]).returncode)
