#!/usr/bin/env bash

set -e

cslc ./layout.csl --arch=wse3 --fabric-dims=8,3 --fabric-offsets=4,1 \
--params=n:12 -o out --memcpy --channels=1
cs_python run.py --name out
