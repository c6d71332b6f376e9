# A star stencil of three radii in one and two chunks, on the library of xdslproject/wse-stencil.
set -e
cp "$1/star_layout.csl" layout_star.csl
cp "$1/star_pe.csl" pe_star.csl
right=0
for arch in wse2 wse3; do
  for pattern in 2 3 5; do
    for chunks in 1 2; do
      size="width:$((2 * pattern + 1)),height:$((2 * pattern + 2))"
      cslc layout_star.csl --arch=$arch --fabric-dims=24,20 --fabric-offsets=4,1 \
        --params="$size,pattern:$pattern,zdim:8,chunks:$chunks" --memcpy --channels=1 -o out
      cs_python "$1/star.py" --name out
      right=$((right + 1))
    done
  done
done
echo "$right RIGHT"
