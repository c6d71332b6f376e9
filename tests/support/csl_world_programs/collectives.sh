# Sums over rows and grids by each algorithm of spcl/spatial-collectives, with values checked.
set -e
sed -i 's#@import_module("modules/time.csl")#@import_module("<time>")#' ./*.csl modules/*.csl
sed -i 's/tile_config.target.word_size/tile_config.word_size/
  s/tile_config.target.addresses/tile_config.addresses/
  s/@as(u16,addresses.COLOR_CONFIG)/@as(u16,addresses.COLOR_CONFIG) * word_size/' modules/*.csl
right=0
for layout in 1d 2d; do
  for algorithm in 0 1 2 3; do
    for all in 0 1; do
      height=1
      [ "$layout" = 1d ] || height=8
      cslc "layout_${layout}_test_inc.csl" --fabric-dims=39,10 --fabric-offsets=4,1 \
        --params="Pw:8,Ph:$height,Algo:$algorithm,is_allred:$all,step:2,Nx_start:33" \
        -o out --memcpy --channels=1
      cs_python "$1" --name out
      right=$((right + 1))
    done
  done
done
echo "$right RIGHT"
