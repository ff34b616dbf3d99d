#!/bin/sh
# Fails if a file under src/ includes a folder that stands after its own in the pipeline.
cd "$(dirname "$0")/../src" || exit 2
order="support expr onnx normal law machine schedule cost sparse plan loop check model target runtime report cli"
bad=0
for folder in $order; do
  later=$(echo " $order " | sed "s/.* $folder //")
  for other in $later; do
    if [ -d "$folder" ] && grep -rn "#include \"$other/" "$folder"; then bad=1; fi
  done
done
exit $bad
