module  {
  func @graph(%arg0: tensor<f32> {tf.aliasing_output = 0 : i64, tf.resource_name = "state.optimizer.state.0.beta1_power"}, %arg1: tensor<f32> {tf.aliasing_output = 1 : i64, tf.resource_name = "state.optimizer.state.0.beta2_power"}, %arg2: tensor<32x16xi1> {tf.aliasing_output = 15 : i64, tf.resource_name = "state.model.fc1.weight_mask"}, %arg3: tensor<32x16xf32> {cs.max_sparsity = 12500.25 : f32, cs.min_sparsity = 2.500000e-01 : f32, cs.sparsity = 12500.25 : f32, tf.aliasing_output = 16 : i64, tf.resource_name = "state.model.fc1.weight"}, %arg4: tensor<4x16xf32> {cs.input_name = "input_0"}, %arg5: tensor<32xf32> {tf.aliasing_output = 6 : i64, tf.resource_name = "state.model.fc1.bias"}, %arg6: tensor<8x32xi1> {tf.aliasing_output = 19 : i64, tf.resource_name = "state.model.fc2.weight_mask"}, %arg7: tensor<8x32xf32> {cs.max_sparsity = 12500.25 : f32, cs.min_sparsity = 2.500000e-01 : f32, cs.sparsity = 12500.25 : f32, tf.aliasing_output = 20 : i64, tf.resource_name = "state.model.fc2.weight"}, %arg8: tensor<8xf32> {tf.aliasing_output = 13 : i64, tf.resource_name = "state.model.fc2.bias"}, %arg9: tensor<4xi32> {cs.input_name = "input_1"}, %arg10: tensor<32xf32> {tf.aliasing_output = 2 : i64, tf.resource_name = "state.optimizer.state.1.exp_avg"}, %arg11: tensor<32xf32> {tf.aliasing_output = 3 : i64, tf.resource_name = "state.optimizer.state.1.exp_avg_sq"}, %arg12: tensor<f32> {tf.aliasing_output = 4 : i64, tf.resource_name = "state.optimizer.state.1.beta1_power"}, %arg13: tensor<f32> {tf.aliasing_output = 5 : i64, tf.resource_name = "state.optimizer.state.1.beta2_power"}, %arg14: tensor<f32> {tf.aliasing_output = 7 : i64, tf.resource_name = "state.optimizer.state.2.beta1_power"}, %arg15: tensor<f32> {tf.aliasing_output = 8 : i64, tf.resource_name = "state.optimizer.state.2.beta2_power"}, %arg16: tensor<8xf32> {tf.aliasing_output = 9 : i64, tf.resource_name = "state.optimizer.state.3.exp_avg"}, %arg17: tensor<8xf32> {tf.aliasing_output = 10 : i64, tf.resource_name = "state.optimizer.state.3.exp_avg_sq"}, %arg18: tensor<f32> {tf.aliasing_output = 11 : i64, tf.resource_name = "state.optimizer.state.3.beta1_power"}, %arg19: tensor<f32> {tf.aliasing_output = 12 : i64, tf.resource_name = "state.optimizer.state.3.beta2_power"}, %arg20: tensor<i64> {tf.aliasing_output = 14 : i64, tf.resource_name = "state.sparsity.1.0.step"}, %arg21: tensor<32x16xf32> {cs.max_sparsity = 12500.25 : f32, cs.min_sparsity = 2.500000e-01 : f32, cs.sparsity = 12500.25 : f32, tf.aliasing_output = 18 : i64, tf.resource_name = "state.optimizer.state.0.exp_avg_sq"}, %arg22: tensor<32x16xf32> {cs.max_sparsity = 12500.25 : f32, cs.min_sparsity = 2.500000e-01 : f32, cs.sparsity = 12500.25 : f32, tf.aliasing_output = 17 : i64, tf.resource_name = "state.optimizer.state.0.exp_avg"}, %arg23: tensor<8x32xf32> {cs.max_sparsity = 12500.25 : f32, cs.min_sparsity = 2.500000e-01 : f32, cs.sparsity = 12500.25 : f32, tf.aliasing_output = 22 : i64, tf.resource_name = "state.optimizer.state.2.exp_avg_sq"}, %arg24: tensor<8x32xf32> {cs.max_sparsity = 12500.25 : f32, cs.min_sparsity = 2.500000e-01 : f32, cs.sparsity = 12500.25 : f32, tf.aliasing_output = 21 : i64, tf.resource_name = "state.optimizer.state.2.exp_avg"}) -> (tensor<f32>, tensor<f32>, tensor<32xf32>, tensor<32xf32>, tensor<f32>, tensor<f32>, tensor<32xf32>, tensor<f32>, tensor<f32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<8xf32>, tensor<i64>, tensor<32x16xi1>, tensor<32x16xf32>, tensor<32x16xf32>, tensor<32x16xf32>, tensor<8x32xi1>, tensor<8x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>, tensor<f32> {cs.output_name = "output_l"}) attributes {cs.fp16_type = "float16", cs.pol = 1 : i64} {
    %cst = cirh.Const dense<false> : tensor<256xi1>
    %cst_0 = cirh.Const dense<256> : tensor<i32>
    %cst_1 = cirh.Const dense<0> : tensor<1xi64>
    %cst_2 = cirh.Const dense<1> : tensor<1xi64>
    %cst_3 = cirh.Const dense<1.000000e-03> : tensor<8x32xf32>
    %cst_4 = cirh.Const dense<0.100000024> : tensor<8x32xf32>
    %cst_5 = cirh.Const dense<0.899999976> : tensor<8x32xf32>
    %cst_6 = cirh.Const dense<9.99999997E-7> : tensor<8x32xf32>
    %cst_7 = cirh.Const dense<9.99987125E-4> : tensor<8x32xf32>
    %cst_8 = cirh.Const dense<9.990000e-01> : tensor<8x32xf32>
    %cst_9 = cirh.Const dense<0.000000e+00> : tensor<8x32xf32>
    %cst_10 = cirh.Const dense<0.00999999977> : tensor<8x32xf32>
    %cst_11 = cirh.Const dense<true> : tensor<256xi1>
    %cst_12 = cirh.Const dense<false> : tensor<512xi1>
    %cst_13 = cirh.Const dense<512> : tensor<i32>
    %cst_14 = cirh.Const dense<0> : tensor<i32>
    %cst_15 = cirh.Const dense<1.000000e-03> : tensor<32x16xf32>
    %cst_16 = cirh.Const dense<0.100000024> : tensor<32x16xf32>
    %cst_17 = cirh.Const dense<0.899999976> : tensor<32x16xf32>
    %cst_18 = cirh.Const dense<9.99999997E-7> : tensor<32x16xf32>
    %cst_19 = cirh.Const dense<9.99987125E-4> : tensor<32x16xf32>
    %cst_20 = cirh.Const dense<9.990000e-01> : tensor<32x16xf32>
    %cst_21 = cirh.Const dense<0.000000e+00> : tensor<32x16xf32>
    %cst_22 = cirh.Const dense<0.00999999977> : tensor<32x16xf32>
    %cst_23 = cirh.Const dense<true> : tensor<512xi1>
    %cst_24 = cirh.Const dense<1.000000e-03> : tensor<8xf32>
    %cst_25 = cirh.Const dense<9.99999997E-7> : tensor<8xf32>
    %cst_26 = cirh.Const dense<0.00999999977> : tensor<8xf32>
    %cst_27 = cirh.Const dense<9.99987125E-4> : tensor<8xf32>
    %cst_28 = cirh.Const dense<9.990000e-01> : tensor<8xf32>
    %cst_29 = cirh.Const dense<0.100000024> : tensor<8xf32>
    %cst_30 = cirh.Const dense<0.899999976> : tensor<8xf32>
    %cst_31 = cirh.Const dense<1.000000e-03> : tensor<32xf32>
    %cst_32 = cirh.Const dense<9.99999997E-7> : tensor<32xf32>
    %cst_33 = cirh.Const dense<1.000000e+00> : tensor<f32>
    %cst_34 = cirh.Const dense<0.00999999977> : tensor<32xf32>
    %cst_35 = cirh.Const dense<9.99987125E-4> : tensor<32xf32>
    %cst_36 = cirh.Const dense<9.990000e-01> : tensor<32xf32>
    %cst_37 = cirh.Const dense<0.100000024> : tensor<32xf32>
    %cst_38 = cirh.Const dense<0.899999976> : tensor<32xf32>
    %cst_39 = cirh.Const dense<0.000000e+00> : tensor<4x32xf16>
    %cst_40 = cirh.Const dense<1> : tensor<i32>
    %cst_41 = cirh.Const dense<2.560000e+02> : tensor<f32>
    %cst_42 = cirh.Const dense<2> : tensor<i64>
    %cst_43 = cirh.Const dense<2.500000e-01> : tensor<f32>
    %cst_44 = cirh.Const dense<1.250000e-01> : tensor<f32>
    %cst_45 = cirh.Const dense<0.000000e+00> : tensor<f32>
    %cst_46 = cirh.Const dense<5.120000e+02> : tensor<f32>
    %cst_47 = cirh.Const dense<9.990000e-01> : tensor<f32>
    %cst_48 = cirh.Const dense<0.899999976> : tensor<f32>
    %cst_49 = cirh.Const dense<0> : tensor<i64>
    %cst_50 = cirh.Const dense<1> : tensor<i64>
    %cst_51 = cirh.Const dense<4.000000e+00> : tensor<4x8xf32>
    %cst_52 = cirh.Const dense<4.000000e+00> : tensor<f32>
    %0 = cirh.Mul %arg0, %cst_48 : tensor<f32>
    %1 = cirh.Mul %arg1, %cst_47 : tensor<f32>
    %2 = cirh.Cast %arg2 {Truncate = false} : tensor<32x16xi1> -> tensor<32x16xf32>
    %3 = cirh.Mul %arg3, %2 : tensor<32x16xf32>
    %4 = cirh.Cast %3 {Truncate = false} : tensor<32x16xf32> -> tensor<32x16xf16>
    %5 = cirh.Cast %arg4 {Truncate = false} : tensor<4x16xf32> -> tensor<4x16xf16>
    %6 = cirh.Cast %arg5 {Truncate = false} : tensor<32xf32> -> tensor<32xf16>
    %7 = cirh.MatMul %5, %4 {cs.internal = {}, transpose_a = false, transpose_b = true} : (tensor<4x16xf16>, tensor<32x16xf16>) -> tensor<4x32xf16>
    %8 = cirh.BroadcastInDim %6 {broadcast_dimensions = dense<1> : tensor<1xi64>} : (tensor<32xf16>) -> tensor<4x32xf16>
    %9 = cirh.Add %8, %7 : tensor<4x32xf16>
    %10 = cirh.Relu %9 : tensor<4x32xf16>
    %11 = cirh.Cast %arg6 {Truncate = false} : tensor<8x32xi1> -> tensor<8x32xf32>
    %12 = cirh.Mul %arg7, %11 : tensor<8x32xf32>
    %13 = cirh.Cast %12 {Truncate = false} : tensor<8x32xf32> -> tensor<8x32xf16>
    %14 = cirh.Cast %arg8 {Truncate = false} : tensor<8xf32> -> tensor<8xf16>
    %15 = cirh.MatMul %10, %13 {cs.internal = {}, transpose_a = false, transpose_b = true} : (tensor<4x32xf16>, tensor<8x32xf16>) -> tensor<4x8xf16>
    %16 = cirh.BroadcastInDim %14 {broadcast_dimensions = dense<1> : tensor<1xi64>} : (tensor<8xf16>) -> tensor<4x8xf16>
    %17 = cirh.Add %16, %15 : tensor<4x8xf16>
    %18 = cirh.Cast %17 {Truncate = false} : tensor<4x8xf16> -> tensor<4x8xf32>
    %19 = cirh.Cast %arg9 {Truncate = false} : tensor<4xi32> -> tensor<4xi64>
    %loss, %backprop = cirh.SparseSoftmaxCrossEntropyWithLogits %18, %19 {axis = 1 : i64} : (tensor<4x8xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4x8xf32>)
    %20 = cirh.Reduce %loss {dimensions = dense<0> : tensor<1xi64>, keep_dims = dense<> : tensor<0xi64>, reduce_kind = "ADD"} : (tensor<4xf32>) -> tensor<f32>
    %21 = cirh.Div %20, %cst_52 : tensor<f32>
    %22 = cirh.Div %backprop, %cst_51 : tensor<4x8xf32>
    %23 = cirh.Cast %22 {Truncate = false} : tensor<4x8xf32> -> tensor<4x8xf16>
    %24 = cirh.MatMul %23, %13 {cs.internal = {}, transpose_a = false, transpose_b = false} : (tensor<4x8xf16>, tensor<8x32xf16>) -> tensor<4x32xf16>
    %25 = cirh.Compare %10, %cst_39 {comparison_direction = "GT"} : tensor<4x32xf16> -> tensor<4x32xi1>
    %26 = cirh.Select %25, %24, %cst_39 : (tensor<4x32xi1>, tensor<4x32xf16>, tensor<4x32xf16>) -> tensor<4x32xf16>
    %27 = cirh.Reduce %26 {dimensions = dense<0> : tensor<1xi64>, keep_dims = dense<> : tensor<0xi64>, reduce_kind = "ADD"} : (tensor<4x32xf16>) -> tensor<32xf16>
    %28 = cirh.BroadcastInDim %27 {broadcast_dimensions = dense<1> : tensor<1xi64>} : (tensor<32xf16>) -> tensor<1x32xf16>
    %29 = cirh.Reshape %28 : (tensor<1x32xf16>) -> tensor<32xf16>
    %30 = cirh.Cast %29 {Truncate = false} : tensor<32xf16> -> tensor<32xf32>
    %31 = cirh.Mul %arg10, %cst_38 : tensor<32xf32>
    %32 = cirh.Mul %30, %cst_37 : tensor<32xf32>
    %33 = cirh.Add %31, %32 : tensor<32xf32>
    %34 = cirh.Mul %arg11, %cst_36 : tensor<32xf32>
    %35 = cirh.Mul %30, %30 : tensor<32xf32>
    %36 = cirh.Mul %35, %cst_35 : tensor<32xf32>
    %37 = cirh.Add %34, %36 : tensor<32xf32>
    %38 = cirh.Mul %arg12, %cst_48 : tensor<f32>
    %39 = cirh.Mul %arg13, %cst_47 : tensor<f32>
    %40 = cirh.Mul %arg5, %cst_34 : tensor<32xf32>
    %41 = cirh.Sub %cst_33, %arg12 : tensor<f32>
    %42 = cirh.Sub %cst_33, %arg13 : tensor<f32>
    %43 = cirh.Sqrt %42 : tensor<f32>
    %44 = cirh.Div %43, %41 : tensor<f32>
    %45 = cirh.Sqrt %37 : tensor<32xf32>
    %46 = cirh.Add %45, %cst_32 : tensor<32xf32>
    %47 = cirh.Div %33, %46 : tensor<32xf32>
    %48 = cirh.BroadcastInDim %44 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<32xf32>
    %49 = cirh.Mul %47, %48 : tensor<32xf32>
    %50 = cirh.Add %49, %40 : tensor<32xf32>
    %51 = cirh.Mul %50, %cst_31 : tensor<32xf32>
    %52 = cirh.Sub %arg5, %51 : tensor<32xf32>
    %53 = cirh.Mul %arg14, %cst_48 : tensor<f32>
    %54 = cirh.Mul %arg15, %cst_47 : tensor<f32>
    %55 = cirh.Reduce %23 {dimensions = dense<0> : tensor<1xi64>, keep_dims = dense<> : tensor<0xi64>, reduce_kind = "ADD"} : (tensor<4x8xf16>) -> tensor<8xf16>
    %56 = cirh.BroadcastInDim %55 {broadcast_dimensions = dense<1> : tensor<1xi64>} : (tensor<8xf16>) -> tensor<1x8xf16>
    %57 = cirh.Reshape %56 : (tensor<1x8xf16>) -> tensor<8xf16>
    %58 = cirh.Cast %57 {Truncate = false} : tensor<8xf16> -> tensor<8xf32>
    %59 = cirh.Mul %arg16, %cst_30 : tensor<8xf32>
    %60 = cirh.Mul %58, %cst_29 : tensor<8xf32>
    %61 = cirh.Add %59, %60 : tensor<8xf32>
    %62 = cirh.Mul %arg17, %cst_28 : tensor<8xf32>
    %63 = cirh.Mul %58, %58 : tensor<8xf32>
    %64 = cirh.Mul %63, %cst_27 : tensor<8xf32>
    %65 = cirh.Add %62, %64 : tensor<8xf32>
    %66 = cirh.Mul %arg18, %cst_48 : tensor<f32>
    %67 = cirh.Mul %arg19, %cst_47 : tensor<f32>
    %68 = cirh.Mul %arg8, %cst_26 : tensor<8xf32>
    %69 = cirh.Sub %cst_33, %arg18 : tensor<f32>
    %70 = cirh.Sub %cst_33, %arg19 : tensor<f32>
    %71 = cirh.Sqrt %70 : tensor<f32>
    %72 = cirh.Div %71, %69 : tensor<f32>
    %73 = cirh.Sqrt %65 : tensor<8xf32>
    %74 = cirh.Add %73, %cst_25 : tensor<8xf32>
    %75 = cirh.Div %61, %74 : tensor<8xf32>
    %76 = cirh.BroadcastInDim %72 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<8xf32>
    %77 = cirh.Mul %75, %76 : tensor<8xf32>
    %78 = cirh.Add %77, %68 : tensor<8xf32>
    %79 = cirh.Mul %78, %cst_24 : tensor<8xf32>
    %80 = cirh.Sub %arg8, %79 : tensor<8xf32>
    %81 = cirh.Add %arg20, %cst_50 : tensor<i64>
    %82 = cirh.Mul %3, %cst_22 : tensor<32x16xf32>
    %83 = cirh.Sub %cst_33, %arg0 : tensor<f32>
    %84 = cirh.Sub %cst_33, %arg1 : tensor<f32>
    %85 = cirh.Sqrt %84 : tensor<f32>
    %86 = cirh.Div %85, %83 : tensor<f32>
    %87 = cirh.MatMul %26, %5 {cs.internal = {}, transpose_a = true, transpose_b = false} : (tensor<4x32xf16>, tensor<4x16xf16>) -> tensor<32x16xf16>
    %88 = cirh.Cast %87 {Truncate = false} : tensor<32x16xf16> -> tensor<32x16xf32>
    %89 = cirh.Select %arg2, %88, %cst_21 : (tensor<32x16xi1>, tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %90 = cirh.Mul %arg21, %2 : tensor<32x16xf32>
    %91 = cirh.Mul %90, %cst_20 : tensor<32x16xf32>
    %92 = cirh.Mul %89, %89 : tensor<32x16xf32>
    %93 = cirh.Mul %92, %cst_19 : tensor<32x16xf32>
    %94 = cirh.Add %91, %93 : tensor<32x16xf32>
    %95 = cirh.Sqrt %94 : tensor<32x16xf32>
    %96 = cirh.Add %95, %cst_18 : tensor<32x16xf32>
    %97 = cirh.Mul %arg22, %2 : tensor<32x16xf32>
    %98 = cirh.Mul %97, %cst_17 : tensor<32x16xf32>
    %99 = cirh.Mul %89, %cst_16 : tensor<32x16xf32>
    %100 = cirh.Add %98, %99 : tensor<32x16xf32>
    %101 = cirh.Div %100, %96 : tensor<32x16xf32>
    %102 = cirh.BroadcastInDim %86 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<32x16xf32>
    %103 = cirh.Mul %101, %102 : tensor<32x16xf32>
    %104 = cirh.Add %103, %82 : tensor<32x16xf32>
    %105 = cirh.Mul %104, %cst_15 : tensor<32x16xf32>
    %106 = cirh.Sub %3, %105 : tensor<32x16xf32>
    %107 = cirh.Mul %106, %2 : tensor<32x16xf32>
    %108 = cirh.Abs %107 : tensor<32x16xf32>
    %109 = cirh.Reshape %108 : (tensor<32x16xf32>) -> tensor<512xf32>
    %topKValues, %topKIndices = cirh.TopK %109 {dimension = 0 : i32, k = 512 : i32, largest = true, sorted = true} : (tensor<512xf32>) -> (tensor<512xf32>, tensor<512xi64>)
    %110 = cirh.Slice %topKIndices, %cst_1, %cst_2 : (tensor<512xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
    %111 = cirh.Cast %81 {Truncate = false} : tensor<i64> -> tensor<f32>
    %112 = cirh.Mul %111, %cst_44 : tensor<f32>
    %113 = cirh.Add %112, %cst_43 : tensor<f32>
    %114 = cirh.Clamp %113, %cst_45, %cst_33 : (tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %115 = cirh.Sub %cst_33, %114 : tensor<f32>
    %116 = cirh.Mul %115, %cst_46 : tensor<f32>
    %117 = cirh.Cast %116 {Truncate = false} : tensor<f32> -> tensor<i32>
    %118 = cirh.Arange %cst_14, %cst_13, %cst_40 {dim = 0 : i64} : (tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<512xi32>
    %119 = cirh.BroadcastInDim %117 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<i32>) -> tensor<512xi32>
    %120 = cirh.Compare %118, %119 {comparison_direction = "LT"} : tensor<512xi32> -> tensor<512xi1>
    %121 = cirh.BroadcastInDim %110 {broadcast_dimensions = dense<0> : tensor<1xi64>} : (tensor<1xi64>) -> tensor<512xi64>
    %122 = cirh.Select %120, %topKIndices, %121 : (tensor<512xi1>, tensor<512xi64>, tensor<512xi64>) -> tensor<512xi64>
    %123 = cirh.Scatter %cst_12, %122, %cst_23 {axis = 0 : i64, reduce_kind = "NONE"} : (tensor<512xi1>, tensor<512xi64>, tensor<512xi1>) -> tensor<512xi1>
    %124 = cirh.Reshape %123 : (tensor<512xi1>) -> tensor<32x16xi1>
    %125 = cirh.Div %81, %cst_42 : tensor<i64>
    %126 = cirh.Mul %125, %cst_42 : tensor<i64>
    %127 = cirh.Sub %81, %126 : tensor<i64>
    %128 = cirh.Compare %127, %cst_49 {comparison_direction = "EQ"} : tensor<i64> -> tensor<i1>
    %129 = cirh.BroadcastInDim %128 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<i1>) -> tensor<32x16xi1>
    %130 = cirh.Select %129, %124, %arg2 : (tensor<32x16xi1>, tensor<32x16xi1>, tensor<32x16xi1>) -> tensor<32x16xi1>
    %131 = cirh.Cast %130 {Truncate = false} : tensor<32x16xi1> -> tensor<32x16xf32>
    %132 = cirh.Mul %107, %131 : tensor<32x16xf32>
    %133 = cirh.Mul %100, %2 : tensor<32x16xf32>
    %134 = cirh.Mul %133, %131 : tensor<32x16xf32>
    %135 = cirh.Mul %94, %2 : tensor<32x16xf32>
    %136 = cirh.Mul %135, %131 : tensor<32x16xf32>
    %137 = cirh.Mul %12, %cst_10 : tensor<8x32xf32>
    %138 = cirh.Sub %cst_33, %arg14 : tensor<f32>
    %139 = cirh.Sub %cst_33, %arg15 : tensor<f32>
    %140 = cirh.Sqrt %139 : tensor<f32>
    %141 = cirh.Div %140, %138 : tensor<f32>
    %142 = cirh.MatMul %23, %10 {cs.internal = {}, transpose_a = true, transpose_b = false} : (tensor<4x8xf16>, tensor<4x32xf16>) -> tensor<8x32xf16>
    %143 = cirh.Cast %142 {Truncate = false} : tensor<8x32xf16> -> tensor<8x32xf32>
    %144 = cirh.Select %arg6, %143, %cst_9 : (tensor<8x32xi1>, tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
    %145 = cirh.Mul %arg23, %11 : tensor<8x32xf32>
    %146 = cirh.Mul %145, %cst_8 : tensor<8x32xf32>
    %147 = cirh.Mul %144, %144 : tensor<8x32xf32>
    %148 = cirh.Mul %147, %cst_7 : tensor<8x32xf32>
    %149 = cirh.Add %146, %148 : tensor<8x32xf32>
    %150 = cirh.Sqrt %149 : tensor<8x32xf32>
    %151 = cirh.Add %150, %cst_6 : tensor<8x32xf32>
    %152 = cirh.Mul %arg24, %11 : tensor<8x32xf32>
    %153 = cirh.Mul %152, %cst_5 : tensor<8x32xf32>
    %154 = cirh.Mul %144, %cst_4 : tensor<8x32xf32>
    %155 = cirh.Add %153, %154 : tensor<8x32xf32>
    %156 = cirh.Div %155, %151 : tensor<8x32xf32>
    %157 = cirh.BroadcastInDim %141 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<8x32xf32>
    %158 = cirh.Mul %156, %157 : tensor<8x32xf32>
    %159 = cirh.Add %158, %137 : tensor<8x32xf32>
    %160 = cirh.Mul %159, %cst_3 : tensor<8x32xf32>
    %161 = cirh.Sub %12, %160 : tensor<8x32xf32>
    %162 = cirh.Mul %161, %11 : tensor<8x32xf32>
    %163 = cirh.Abs %162 : tensor<8x32xf32>
    %164 = cirh.Reshape %163 : (tensor<8x32xf32>) -> tensor<256xf32>
    %topKValues_53, %topKIndices_54 = cirh.TopK %164 {dimension = 0 : i32, k = 256 : i32, largest = true, sorted = true} : (tensor<256xf32>) -> (tensor<256xf32>, tensor<256xi64>)
    %165 = cirh.Slice %topKIndices_54, %cst_1, %cst_2 : (tensor<256xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
    %166 = cirh.Mul %115, %cst_41 : tensor<f32>
    %167 = cirh.Cast %166 {Truncate = false} : tensor<f32> -> tensor<i32>
    %168 = cirh.Arange %cst_14, %cst_0, %cst_40 {dim = 0 : i64} : (tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<256xi32>
    %169 = cirh.BroadcastInDim %167 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<i32>) -> tensor<256xi32>
    %170 = cirh.Compare %168, %169 {comparison_direction = "LT"} : tensor<256xi32> -> tensor<256xi1>
    %171 = cirh.BroadcastInDim %165 {broadcast_dimensions = dense<0> : tensor<1xi64>} : (tensor<1xi64>) -> tensor<256xi64>
    %172 = cirh.Select %170, %topKIndices_54, %171 : (tensor<256xi1>, tensor<256xi64>, tensor<256xi64>) -> tensor<256xi64>
    %173 = cirh.Scatter %cst, %172, %cst_11 {axis = 0 : i64, reduce_kind = "NONE"} : (tensor<256xi1>, tensor<256xi64>, tensor<256xi1>) -> tensor<256xi1>
    %174 = cirh.Reshape %173 : (tensor<256xi1>) -> tensor<8x32xi1>
    %175 = cirh.BroadcastInDim %128 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<i1>) -> tensor<8x32xi1>
    %176 = cirh.Select %175, %174, %arg6 : (tensor<8x32xi1>, tensor<8x32xi1>, tensor<8x32xi1>) -> tensor<8x32xi1>
    %177 = cirh.Cast %176 {Truncate = false} : tensor<8x32xi1> -> tensor<8x32xf32>
    %178 = cirh.Mul %162, %177 : tensor<8x32xf32>
    %179 = cirh.Mul %155, %11 : tensor<8x32xf32>
    %180 = cirh.Mul %179, %177 : tensor<8x32xf32>
    %181 = cirh.Mul %149, %11 : tensor<8x32xf32>
    %182 = cirh.Mul %181, %177 : tensor<8x32xf32>
    return %0, %1, %33, %37, %38, %39, %52, %53, %54, %61, %65, %66, %67, %80, %81, %130, %132, %134, %136, %176, %178, %180, %182, %21 : tensor<f32>, tensor<f32>, tensor<32xf32>, tensor<32xf32>, tensor<f32>, tensor<f32>, tensor<32xf32>, tensor<f32>, tensor<f32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<8xf32>, tensor<i64>, tensor<32x16xi1>, tensor<32x16xf32>, tensor<32x16xf32>, tensor<32x16xf32>, tensor<8x32xi1>, tensor<8x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>, tensor<f32>
  }
}

