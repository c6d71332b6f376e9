#!/usr/bin/env bash

set -e

cslc ./layout.csl --arch=wse2 --fabric-dims=11,3 --fabric-offsets=4,1 \
--params=width:4,rows:6,columns:5 -o out --memcpy --channels=1
cs_python run.py --name out
