/* Products with a sparse matrix in compressed rows; see the package's docstring.

   Samples lie across a vector: a non-zero multiplies one feature of many samples, so its column may
   be anywhere. Activations come sample by sample and are packed feature by feature, a block of
   samples at a time, which stays in the second-level cache. Vectors are 16 numbers wide; a processor
   whose vectors are narrower gets each in two.

   Every result is a sum in an order that neither threads nor other results influence. */

#include "products.h"

#define WIDE 4                   /* vectors of a block of samples in a product */
#define BLOCK (WIDTH * WIDE)     /* samples of it */
#define LONG 8                   /* the most vectors of a block of samples in a sampled product */

/* Packing: a tile of 16 samples by 16 features is transposed in registers. */

static inline void transpose(vector tile[WIDTH])
{
	vector other[WIDTH];
	for (int i = 0; i < 8; i++) {
		other[2 * i] = interleave_low(tile[i], tile[i + 8]);
		other[2 * i + 1] = interleave_high(tile[i], tile[i + 8]);
	}
	for (int i = 0; i < 8; i++) {
		tile[2 * i] = interleave_low(other[i], other[i + 8]);
		tile[2 * i + 1] = interleave_high(other[i], other[i + 8]);
	}
	for (int i = 0; i < 8; i++) {
		other[2 * i] = interleave_low(tile[i], tile[i + 8]);
		other[2 * i + 1] = interleave_high(tile[i], tile[i + 8]);
	}
	for (int i = 0; i < 8; i++) {
		tile[2 * i] = interleave_low(other[i], other[i + 8]);
		tile[2 * i + 1] = interleave_high(other[i], other[i + 8]);
	}
}

/* Pack samples [0, count) of features [0, features), count at most 16, into packed[f * width];
   elements of samples that do not exist are zero. */
static void pack_vectors(const float *x, int64_t stride, int64_t features, int64_t count,
		       float *packed, int64_t width)
{
	int64_t f = 0;
	for (; f + WIDTH <= features; f += WIDTH) {
		vector tile[WIDTH];
		if (count == WIDTH)
			for (int i = 0; i < WIDTH; i++)
				tile[i] = load(x + i * stride + f);
		else
			for (int i = 0; i < WIDTH; i++)
				tile[i] = i < count ? load(x + i * stride + f) : (vector){0};
		transpose(tile);
		for (int i = 0; i < WIDTH; i++)
			store(packed + (f + i) * width, tile[i]);
	}
	for (; f < features; f++)
		for (int i = 0; i < WIDTH; i++)
			packed[f * width + i] = i < count ? x[i * stride + f] : 0;
}

static void pack(const float *x, int64_t stride, int64_t features, int64_t samples, int64_t vectors,
		 float *packed)
{
	for (int64_t v = 0; v < vectors; v++) {
		int64_t left = samples - v * WIDTH;
		pack_vectors(x + v * WIDTH * stride, stride, features, left < WIDTH ? left : WIDTH,
			   packed + v * WIDTH, vectors * WIDTH);
	}
}

/* Write 16 rows of a result, held feature by feature, to samples of it. */
static inline void unpack_tile(const float *rows, int64_t width, float *y, int64_t stride,
			       int64_t count, int accumulate)
{
	vector tile[WIDTH];
	for (int i = 0; i < WIDTH; i++)
		tile[i] = load(rows + i * width);
	transpose(tile);
	for (int i = 0; i < count; i++) {
		float *to = y + i * stride;
		store(to, accumulate ? load(to) + tile[i] : tile[i]);
	}
}

static void unpack(const float *rows, int64_t num_rows, int64_t vectors, float *y, int64_t stride,
		   int64_t samples, int accumulate)
{
	int64_t width = vectors * WIDTH;
	for (int64_t first = 0; first < samples; first += WIDTH) {
		int64_t count = samples - first < WIDTH ? samples - first : WIDTH;
		if (num_rows == WIDTH) {
			unpack_tile(rows + first, width, y + first * stride, stride, count, accumulate);
			continue;
		}
		for (int64_t i = 0; i < count; i++)
			for (int64_t r = 0; r < num_rows; r++) {
				float *to = y + (first + i) * stride + r;
				float value = rows[r * width + first + i];
				*to = accumulate ? *to + value : value;
			}
	}
}

/* The product of one block of samples. */

#define PRODUCT(NAME, INDEX, VECTORS)                                                              \
	static void NAME(const struct matrix *w, const float *packed, float *y, int64_t stride,    \
			 int64_t samples, int accumulate)                                          \
	{                                                                                          \
		const INDEX *columns = w->columns;                                                 \
		const float *values = w->values;                                                   \
		float rows[WIDTH * VECTORS * WIDTH] ALIGNED;                                       \
		for (int64_t first = 0; first < w->num_rows; first += WIDTH) {                     \
			int64_t left = w->num_rows - first;                                        \
			int64_t num_rows = left < WIDTH ? left : WIDTH;                            \
			for (int64_t r = 0; r < num_rows; r++) {                                   \
				vector sum[VECTORS];                                               \
				for (int v = 0; v < VECTORS; v++)                                  \
					sum[v] = (vector){0};                                      \
				int64_t end = w->offsets[first + r + 1];                           \
				for (int64_t i = w->offsets[first + r]; i < end; i++) {            \
					const float *x =                                           \
						packed + (int64_t)columns[i] * VECTORS * WIDTH;    \
					vector value = every(values[i]);                           \
					for (int v = 0; v < VECTORS; v++)                          \
						sum[v] = fused(value, load(x + v * WIDTH), sum[v]); \
				}                                                                  \
				for (int v = 0; v < VECTORS; v++)                                  \
					store(rows + (r * VECTORS + v) * WIDTH, sum[v]);           \
			}                                                                          \
			unpack(rows, num_rows, VECTORS, y + first, stride, samples, accumulate);   \
		}                                                                                  \
	}

PRODUCT(product_short_1, uint16_t, 1)
PRODUCT(product_short_2, uint16_t, 2)
PRODUCT(product_short_3, uint16_t, 3)
PRODUCT(product_short_4, uint16_t, 4)
PRODUCT(product_long_1, uint32_t, 1)
PRODUCT(product_long_2, uint32_t, 2)
PRODUCT(product_long_3, uint32_t, 3)
PRODUCT(product_long_4, uint32_t, 4)

typedef void product(const struct matrix *, const float *, float *, int64_t, int64_t, int);

static product *const PRODUCTS[2][WIDE] = {
	{product_short_1, product_short_2, product_short_3, product_short_4},
	{product_long_1, product_long_2, product_long_3, product_long_4},
};

/* y = x @ W^T of all samples, by as many threads as come here. */
void sparse_product(struct product_work *work)
{
	int64_t thread = __atomic_fetch_add(&work->next_thread, 1, __ATOMIC_RELAXED);
	float *packed = work->scratch + thread * work->matrix.num_columns * BLOCK;
	for (;;) {
		int64_t piece = __atomic_fetch_add(&work->next_piece, 1, __ATOMIC_RELAXED);
		int64_t first = piece * BLOCK, left = work->samples - first;
		if (left <= 0)
			return;
		int64_t samples = left < BLOCK ? left : BLOCK;
		int64_t vectors = (samples + WIDTH - 1) / WIDTH;
		pack(work->x + first * work->x_stride, work->x_stride, work->matrix.num_columns,
		     samples, vectors, packed);
		PRODUCTS[work->matrix.is_long][vectors - 1](
			&work->matrix, packed, work->y + first * work->y_stride, work->y_stride,
			samples, (int)work->accumulate);
	}
}

/* dW = dy^T @ x where W is not zero. */

/* The sums of the elements of four vectors. */
static inline quad sums_of(vector a, vector b, vector c, vector d)
{
	vector ab = interleave_low(a, b) + interleave_high(a, b);
	vector cd = interleave_low(c, d) + interleave_high(c, d);
	/* ab: a b a b ...; as pairs: (a b) (c d) (a b) (c d) ... */
	vector all = SHUFFLE(ab, cd, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23) +
		     SHUFFLE(ab, cd, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31);
	quad q0 = QUAD(all, 0, 1, 2, 3), q1 = QUAD(all, 4, 5, 6, 7);
	quad q2 = QUAD(all, 8, 9, 10, 11), q3 = QUAD(all, 12, 13, 14, 15);
	return (q0 + q1) + (q2 + q3);
}

#define SAMPLED(NAME, INDEX, VECTORS)                                                                       \
	static void NAME(const struct matrix *w, const float *dy, const float *x, float *out,      \
			 int64_t first_row, int64_t end_row, int accumulate)                       \
	{                                                                                          \
		const INDEX *columns = w->columns;                                                 \
		for (int64_t r = first_row; r < end_row; r++) {                                    \
			vector left[VECTORS];                                                         \
			for (int v = 0; v < VECTORS; v++)                                             \
				left[v] = load(dy + (r * VECTORS + v) * WIDTH);                       \
			int64_t i = w->offsets[r], end = w->offsets[r + 1];                        \
			for (; i + 4 <= end; i += 4) {                                             \
				vector sum[4];                                                     \
				const float *right[4];                                             \
				for (int k = 0; k < 4; k++) {                                      \
					right[k] = x + (int64_t)columns[i + k] * VECTORS * WIDTH;     \
					sum[k] = left[0] * load(right[k]);                         \
				}                                                                  \
				for (int v = 1; v < VECTORS; v++)                                     \
					for (int k = 0; k < 4; k++)                                \
						sum[k] = fused(left[v], load(right[k] + v * WIDTH), \
							       sum[k]);                            \
				quad found = sums_of(sum[0], sum[1], sum[2], sum[3]);              \
				store_quad(out + i,                                                \
					   accumulate ? load_quad(out + i) + found : found);       \
			}                                                                          \
			for (; i < end; i++) {                                                     \
				const float *right = x + (int64_t)columns[i] * VECTORS * WIDTH;       \
				vector sum = left[0] * load(right);                                \
				for (int v = 1; v < VECTORS; v++)                                     \
					sum = fused(left[v], load(right + v * WIDTH), sum);        \
				quad found = sums_of(sum, sum, sum, sum);                          \
				out[i] = accumulate ? out[i] + found[0] : found[0];                \
			}                                                                          \
		}                                                                                  \
	}

SAMPLED(sampled_short_4, uint16_t, 4)
SAMPLED(sampled_short_8, uint16_t, 8)
SAMPLED(sampled_long_4, uint32_t, 4)
SAMPLED(sampled_long_8, uint32_t, 8)

typedef void sampled(const struct matrix *, const float *, const float *, float *, int64_t, int64_t, int);

static sampled *const SAMPLED_PRODUCTS[2][2] = {
	{sampled_short_4, sampled_short_8},
	{sampled_long_4, sampled_long_8},
};

/* Pack both operands, block by block of samples and of features. */
void sparse_pack(struct sampled_work *work)
{
	int64_t vectors = work->vectors, block = vectors * WIDTH;
	int64_t blocks = (work->samples + block - 1) / block;
	for (;;) {
		int64_t piece = __atomic_fetch_add(&work->next_piece, 1, __ATOMIC_RELAXED);
		if (piece >= 2 * blocks)
			return;
		int64_t first = piece / 2 * block, left = work->samples - first;
		int64_t samples = left < block ? left : block;
		if (piece % 2)
			pack(work->x + first * work->x_stride, work->x_stride,
			     work->matrix.num_columns, samples, vectors,
			     work->packed_x + first * work->matrix.num_columns);
		else
			pack(work->dy + first * work->dy_stride, work->dy_stride,
			     work->matrix.num_rows, samples, vectors,
			     work->packed_dy + first * work->matrix.num_rows);
	}
}

/* The sampled product of what was packed, a piece of the rows at a time. */
void sparse_sampled(struct sampled_work *work)
{
	int64_t block = work->vectors * WIDTH, rows = work->matrix.num_rows;
	sampled *const compute = SAMPLED_PRODUCTS[work->matrix.is_long][work->vectors == LONG];
	for (;;) {
		int64_t piece = __atomic_fetch_add(&work->next_piece, 1, __ATOMIC_RELAXED);
		int64_t begin = piece * work->piece_rows;
		if (begin >= rows)
			return;
		int64_t end = begin + work->piece_rows < rows ? begin + work->piece_rows : rows;
		int accumulate = (int)work->accumulate;
		for (int64_t first = 0; first < work->samples; first += block) {
			compute(&work->matrix, work->packed_dy + first * rows,
				work->packed_x + first * work->matrix.num_columns, work->out, begin,
				end, accumulate);
			accumulate = 1;
		}
	}
}

/* The same matrix by its columns: where each non-zero goes, its row, and the first of each column. */
#define TRANSPOSED(INDEX, ROW)                                                                     \
	do {                                                                                       \
		const INDEX *columns = work->matrix.columns;                                       \
		ROW *to = work->rows;                                                              \
		for (int64_t i = 0; i < num_values; i++)                                           \
			first[columns[i] + 1]++;                                                   \
		for (int64_t c = 0; c < num_columns; c++)                                          \
			first[c + 1] += first[c];                                                  \
		for (int64_t r = 0; r < num_rows; r++)                                             \
			for (int64_t i = offsets[r]; i < offsets[r + 1]; i++) {                    \
				int64_t at = first[columns[i]]++;                                  \
				to[at] = (ROW)r;                                                   \
				work->sources[at] = (uint32_t)i;                                      \
			}                                                                          \
		for (int64_t c = num_columns; c > 0; c--)                                          \
			first[c] = first[c - 1];                                                   \
		first[0] = 0;                                                                      \
	} while (0)

void sparse_transpose(struct transpose_work *work)
{
	int64_t num_rows = work->matrix.num_rows, num_columns = work->matrix.num_columns;
	const int64_t *offsets = work->matrix.offsets;
	int64_t *first = work->offsets, num_values = offsets[num_rows];
	for (int64_t c = 0; c <= num_columns; c++)
		first[c] = 0;
	if (work->matrix.is_long && work->is_long)
		TRANSPOSED(uint32_t, uint32_t);
	else if (work->matrix.is_long)
		TRANSPOSED(uint32_t, uint16_t);
	else if (work->is_long)
		TRANSPOSED(uint16_t, uint32_t);
	else
		TRANSPOSED(uint16_t, uint16_t);
}

/* The matrix with its zeros, and the values of such a one. */

#define CONVERTED(INDEX, STATEMENT)                                                                \
	do {                                                                                       \
		const INDEX *columns = work->matrix.columns;                                       \
		for (int64_t r = 0; r < work->matrix.num_rows; r++) {                              \
			float *row = work->dense + r * work->matrix.num_columns;                   \
			int64_t end = work->matrix.offsets[r + 1];                                 \
			for (int64_t i = work->matrix.offsets[r]; i < end; i++)                    \
				STATEMENT;                                                         \
		}                                                                                  \
	} while (0)

void sparse_fill(struct conversion_work *work)
{
	int64_t size = work->matrix.num_rows * work->matrix.num_columns;
	for (int64_t i = 0; i < size; i++)
		work->dense[i] = 0;
	if (work->matrix.is_long)
		CONVERTED(uint32_t, row[columns[i]] = work->values[i]);
	else
		CONVERTED(uint16_t, row[columns[i]] = work->values[i]);
}

void sparse_take(struct conversion_work *work)
{
	if (work->matrix.is_long)
		CONVERTED(uint32_t, work->values[i] = row[columns[i]]);
	else
		CONVERTED(uint16_t, work->values[i] = row[columns[i]]);
}

/* Offsets and columns of the ones of a bitmap, row by row, the lowest bit of a byte first. */

#define UNPACKED(INDEX)                                                                            \
	do {                                                                                       \
		INDEX *columns = work->columns;                                                    \
		for (int64_t first = 0; first < num_bytes; first += 8) {                           \
			int64_t left = num_bytes - first < 8 ? num_bytes - first : 8;              \
			uint64_t word = 0;                                                         \
			for (int64_t i = 0; i < left; i++)                                         \
				word |= (uint64_t)work->bits[first + i] << (8 * i);                \
			for (; word; word &= word - 1) {                                           \
				int64_t place = 8 * first + __builtin_ctzll(word);                 \
				if (count == work->num_values || place >= size)                    \
					return;                                                    \
				for (; place >= row_end; row_end += work->num_columns)             \
					offsets[++row] = count;                                    \
				columns[count++] = (INDEX)(place - (row_end - work->num_columns)); \
			}                                                                          \
		}                                                                                  \
	} while (0)

void sparse_unpack(struct bitmap_work *work)
{
	int64_t size = work->num_rows * work->num_columns, num_bytes = (size + 7) / 8;
	int64_t row = 0, row_end = work->num_columns, count = 0, *offsets = work->offsets;
	offsets[0] = 0;
	work->is_whole = 0;
	if (work->is_long)
		UNPACKED(uint32_t);
	else
		UNPACKED(uint16_t);
	while (row < work->num_rows)
		offsets[++row] = count;
	work->is_whole = count == work->num_values;
}

/* Whether columns ascend in each row and end below the matrix's, with offsets that are right. */
#define ASCEND(INDEX)                                                                              \
	do {                                                                                       \
		const INDEX *columns = w->columns;                                                 \
		for (int64_t row = 0; row < w->num_rows; row++) {                                  \
			int64_t first = w->offsets[row], end = w->offsets[row + 1], wrong = 0;     \
			_Pragma("clang loop vectorize(enable)")                                    \
			for (int64_t i = first + 1; i < end; i++)                                  \
				wrong |= columns[i - 1] >= columns[i];                             \
			if (wrong || (first < end && columns[end - 1] >= w->num_columns))          \
				return;                                                            \
		}                                                                                  \
	} while (0)

void sparse_check(struct check_work *work)
{
	const struct matrix *w = &work->matrix;
	work->are_offsets = work->are_columns = 0;
	if (w->offsets[0] != 0 || w->offsets[w->num_rows] != work->num_values)
		return;
	for (int64_t row = 0; row < w->num_rows; row++)
		if (w->offsets[row] > w->offsets[row + 1])
			return;
	work->are_offsets = 1;
	if (w->is_long)
		ASCEND(uint32_t);
	else
		ASCEND(uint16_t);
	work->are_columns = 1;
}
