module  {
  func @graph(%arg0: tensor<32x16xi1> {tf.aliasing_output = 0 : i64, tf.resource_name = "state.model.fc1.weight_mask"}, %arg1: tensor<8x32xi1> {tf.aliasing_output = 1 : i64, tf.resource_name = "state.model.fc2.weight_mask"}, %arg2: tensor<f32> {tf.aliasing_output = 2 : i64, tf.resource_name = "state.optimizer.state.0.beta1_power"}, %arg3: tensor<f32> {tf.aliasing_output = 3 : i64, tf.resource_name = "state.optimizer.state.0.beta2_power"}, %arg4: tensor<32x16xf32> {tf.aliasing_output = 16 : i64, tf.resource_name = "state.model.fc1.weight"}, %arg5: tensor<4x16xf32> {cs.input_name = "input_0"}, %arg6: tensor<32xf32> {tf.aliasing_output = 8 : i64, tf.resource_name = "state.model.fc1.bias"}, %arg7: tensor<8x32xf32> {tf.aliasing_output = 19 : i64, tf.resource_name = "state.model.fc2.weight"}, %arg8: tensor<8xf32> {tf.aliasing_output = 15 : i64, tf.resource_name = "state.model.fc2.bias"}, %arg9: tensor<4xi32> {cs.input_name = "input_1"}, %arg10: tensor<32xf32> {tf.aliasing_output = 4 : i64, tf.resource_name = "state.optimizer.state.1.exp_avg"}, %arg11: tensor<32xf32> {tf.aliasing_output = 5 : i64, tf.resource_name = "state.optimizer.state.1.exp_avg_sq"}, %arg12: tensor<f32> {tf.aliasing_output = 6 : i64, tf.resource_name = "state.optimizer.state.1.beta1_power"}, %arg13: tensor<f32> {tf.aliasing_output = 7 : i64, tf.resource_name = "state.optimizer.state.1.beta2_power"}, %arg14: tensor<f32> {tf.aliasing_output = 9 : i64, tf.resource_name = "state.optimizer.state.2.beta1_power"}, %arg15: tensor<f32> {tf.aliasing_output = 10 : i64, tf.resource_name = "state.optimizer.state.2.beta2_power"}, %arg16: tensor<8xf32> {tf.aliasing_output = 11 : i64, tf.resource_name = "state.optimizer.state.3.exp_avg"}, %arg17: tensor<8xf32> {tf.aliasing_output = 12 : i64, tf.resource_name = "state.optimizer.state.3.exp_avg_sq"}, %arg18: tensor<f32> {tf.aliasing_output = 13 : i64, tf.resource_name = "state.optimizer.state.3.beta1_power"}, %arg19: tensor<f32> {tf.aliasing_output = 14 : i64, tf.resource_name = "state.optimizer.state.3.beta2_power"}, %arg20: tensor<32x16xf32> {tf.aliasing_output = 18 : i64, tf.resource_name = "state.optimizer.state.0.exp_avg_sq"}, %arg21: tensor<32x16xf32> {tf.aliasing_output = 17 : i64, tf.resource_name = "state.optimizer.state.0.exp_avg"}, %arg22: tensor<8x32xf32> {tf.aliasing_output = 21 : i64, tf.resource_name = "state.optimizer.state.2.exp_avg_sq"}, %arg23: tensor<8x32xf32> {tf.aliasing_output = 20 : i64, tf.resource_name = "state.optimizer.state.2.exp_avg"}) -> (tensor<32x16xi1>, tensor<8x32xi1>, tensor<f32>, tensor<f32>, tensor<32xf32>, tensor<32xf32>, tensor<f32>, tensor<f32>, tensor<32xf32>, tensor<f32>, tensor<f32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<8xf32>, tensor<32x16xf32>, tensor<32x16xf32>, tensor<32x16xf32>, tensor<8x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>, tensor<f32> {cs.output_name = "output_l"}) attributes {cs.fp16_type = "float16", cs.pol = 1 : i64} {
    %cst = cirh.Const dense<1.000000e-03> : tensor<8x32xf32>
    %cst_0 = cirh.Const dense<0.100000024> : tensor<8x32xf32>
    %cst_1 = cirh.Const dense<0.899999976> : tensor<8x32xf32>
    %cst_2 = cirh.Const dense<9.99999997E-7> : tensor<8x32xf32>
    %cst_3 = cirh.Const dense<9.99987125E-4> : tensor<8x32xf32>
    %cst_4 = cirh.Const dense<9.990000e-01> : tensor<8x32xf32>
    %cst_5 = cirh.Const dense<0.000000e+00> : tensor<8x32xf32>
    %cst_6 = cirh.Const dense<1.000000e-03> : tensor<32x16xf32>
    %cst_7 = cirh.Const dense<0.100000024> : tensor<32x16xf32>
    %cst_8 = cirh.Const dense<0.899999976> : tensor<32x16xf32>
    %cst_9 = cirh.Const dense<9.99999997E-7> : tensor<32x16xf32>
    %cst_10 = cirh.Const dense<9.99987125E-4> : tensor<32x16xf32>
    %cst_11 = cirh.Const dense<9.990000e-01> : tensor<32x16xf32>
    %cst_12 = cirh.Const dense<0.000000e+00> : tensor<32x16xf32>
    %cst_13 = cirh.Const dense<1.000000e-03> : tensor<8xf32>
    %cst_14 = cirh.Const dense<9.99999997E-7> : tensor<8xf32>
    %cst_15 = cirh.Const dense<9.99987125E-4> : tensor<8xf32>
    %cst_16 = cirh.Const dense<9.990000e-01> : tensor<8xf32>
    %cst_17 = cirh.Const dense<0.100000024> : tensor<8xf32>
    %cst_18 = cirh.Const dense<0.899999976> : tensor<8xf32>
    %cst_19 = cirh.Const dense<1.000000e-03> : tensor<32xf32>
    %cst_20 = cirh.Const dense<9.99999997E-7> : tensor<32xf32>
    %cst_21 = cirh.Const dense<1.000000e+00> : tensor<f32>
    %cst_22 = cirh.Const dense<9.99987125E-4> : tensor<32xf32>
    %cst_23 = cirh.Const dense<9.990000e-01> : tensor<32xf32>
    %cst_24 = cirh.Const dense<0.100000024> : tensor<32xf32>
    %cst_25 = cirh.Const dense<0.899999976> : tensor<32xf32>
    %cst_26 = cirh.Const dense<0.000000e+00> : tensor<4x32xf16>
    %cst_27 = cirh.Const dense<9.990000e-01> : tensor<f32>
    %cst_28 = cirh.Const dense<0.899999976> : tensor<f32>
    %cst_29 = cirh.Const dense<4.000000e+00> : tensor<4x8xf32>
    %cst_30 = cirh.Const dense<4.000000e+00> : tensor<f32>
    %0 = cirh.Mul %arg2, %cst_28 : tensor<f32>
    %1 = cirh.Mul %arg3, %cst_27 : tensor<f32>
    %2 = cirh.Cast %arg0 {Truncate = false} : tensor<32x16xi1> -> tensor<32x16xf32>
    %3 = cirh.Mul %arg4, %2 : tensor<32x16xf32>
    %4 = cirh.Cast %3 {Truncate = false} : tensor<32x16xf32> -> tensor<32x16xf16>
    %5 = cirh.Cast %arg5 {Truncate = false} : tensor<4x16xf32> -> tensor<4x16xf16>
    %6 = cirh.Cast %arg6 {Truncate = false} : tensor<32xf32> -> tensor<32xf16>
    %7 = cirh.MatMul %5, %4 {cs.internal = {}, transpose_a = false, transpose_b = true} : (tensor<4x16xf16>, tensor<32x16xf16>) -> tensor<4x32xf16>
    %8 = cirh.BroadcastInDim %6 {broadcast_dimensions = dense<1> : tensor<1xi64>} : (tensor<32xf16>) -> tensor<4x32xf16>
    %9 = cirh.Add %8, %7 : tensor<4x32xf16>
    %10 = cirh.Relu %9 : tensor<4x32xf16>
    %11 = cirh.Cast %arg1 {Truncate = false} : tensor<8x32xi1> -> tensor<8x32xf32>
    %12 = cirh.Mul %arg7, %11 : tensor<8x32xf32>
    %13 = cirh.Cast %12 {Truncate = false} : tensor<8x32xf32> -> tensor<8x32xf16>
    %14 = cirh.Cast %arg8 {Truncate = false} : tensor<8xf32> -> tensor<8xf16>
    %15 = cirh.MatMul %10, %13 {cs.internal = {}, transpose_a = false, transpose_b = true} : (tensor<4x32xf16>, tensor<8x32xf16>) -> tensor<4x8xf16>
    %16 = cirh.BroadcastInDim %14 {broadcast_dimensions = dense<1> : tensor<1xi64>} : (tensor<8xf16>) -> tensor<4x8xf16>
    %17 = cirh.Add %16, %15 : tensor<4x8xf16>
    %18 = cirh.Cast %17 {Truncate = false} : tensor<4x8xf16> -> tensor<4x8xf32>
    %loss, %backprop = cirh.SparseSoftmaxCrossEntropyWithLogits %18, %arg9 {axis = 1 : i64} : (tensor<4x8xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4x8xf32>)
    %19 = cirh.Reduce %loss {dimensions = dense<0> : tensor<1xi64>, keep_dims = dense<> : tensor<0xi64>, reduce_kind = "ADD"} : (tensor<4xf32>) -> tensor<f32>
    %20 = cirh.Div %19, %cst_30 : tensor<f32>
    %21 = cirh.Div %backprop, %cst_29 : tensor<4x8xf32>
    %22 = cirh.Cast %21 {Truncate = false} : tensor<4x8xf32> -> tensor<4x8xf16>
    %23 = cirh.MatMul %22, %13 {cs.internal = {}, transpose_a = false, transpose_b = false} : (tensor<4x8xf16>, tensor<8x32xf16>) -> tensor<4x32xf16>
    %24 = cirh.Compare %10, %cst_26 {comparison_direction = "GT"} : tensor<4x32xf16> -> tensor<4x32xi1>
    %25 = cirh.Select %24, %23, %cst_26 : (tensor<4x32xi1>, tensor<4x32xf16>, tensor<4x32xf16>) -> tensor<4x32xf16>
    %26 = cirh.Reduce %25 {dimensions = dense<0> : tensor<1xi64>, keep_dims = dense<> : tensor<0xi64>, reduce_kind = "ADD"} : (tensor<4x32xf16>) -> tensor<32xf16>
    %27 = cirh.BroadcastInDim %26 {broadcast_dimensions = dense<1> : tensor<1xi64>} : (tensor<32xf16>) -> tensor<1x32xf16>
    %28 = cirh.Reshape %27 : (tensor<1x32xf16>) -> tensor<32xf16>
    %29 = cirh.Cast %28 {Truncate = false} : tensor<32xf16> -> tensor<32xf32>
    %30 = cirh.Mul %arg10, %cst_25 : tensor<32xf32>
    %31 = cirh.Mul %29, %cst_24 : tensor<32xf32>
    %32 = cirh.Add %30, %31 : tensor<32xf32>
    %33 = cirh.Mul %arg11, %cst_23 : tensor<32xf32>
    %34 = cirh.Mul %29, %29 : tensor<32xf32>
    %35 = cirh.Mul %34, %cst_22 : tensor<32xf32>
    %36 = cirh.Add %33, %35 : tensor<32xf32>
    %37 = cirh.Mul %arg12, %cst_28 : tensor<f32>
    %38 = cirh.Mul %arg13, %cst_27 : tensor<f32>
    %39 = cirh.Sub %cst_21, %arg12 : tensor<f32>
    %40 = cirh.Sub %cst_21, %arg13 : tensor<f32>
    %41 = cirh.Sqrt %40 : tensor<f32>
    %42 = cirh.Div %41, %39 : tensor<f32>
    %43 = cirh.Sqrt %36 : tensor<32xf32>
    %44 = cirh.Add %43, %cst_20 : tensor<32xf32>
    %45 = cirh.Div %32, %44 : tensor<32xf32>
    %46 = cirh.BroadcastInDim %42 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<32xf32>
    %47 = cirh.Mul %45, %46 : tensor<32xf32>
    %48 = cirh.Mul %47, %cst_19 : tensor<32xf32>
    %49 = cirh.Sub %arg6, %48 : tensor<32xf32>
    %50 = cirh.Mul %arg14, %cst_28 : tensor<f32>
    %51 = cirh.Mul %arg15, %cst_27 : tensor<f32>
    %52 = cirh.Reduce %22 {dimensions = dense<0> : tensor<1xi64>, keep_dims = dense<> : tensor<0xi64>, reduce_kind = "ADD"} : (tensor<4x8xf16>) -> tensor<8xf16>
    %53 = cirh.BroadcastInDim %52 {broadcast_dimensions = dense<1> : tensor<1xi64>} : (tensor<8xf16>) -> tensor<1x8xf16>
    %54 = cirh.Reshape %53 : (tensor<1x8xf16>) -> tensor<8xf16>
    %55 = cirh.Cast %54 {Truncate = false} : tensor<8xf16> -> tensor<8xf32>
    %56 = cirh.Mul %arg16, %cst_18 : tensor<8xf32>
    %57 = cirh.Mul %55, %cst_17 : tensor<8xf32>
    %58 = cirh.Add %56, %57 : tensor<8xf32>
    %59 = cirh.Mul %arg17, %cst_16 : tensor<8xf32>
    %60 = cirh.Mul %55, %55 : tensor<8xf32>
    %61 = cirh.Mul %60, %cst_15 : tensor<8xf32>
    %62 = cirh.Add %59, %61 : tensor<8xf32>
    %63 = cirh.Mul %arg18, %cst_28 : tensor<f32>
    %64 = cirh.Mul %arg19, %cst_27 : tensor<f32>
    %65 = cirh.Sub %cst_21, %arg18 : tensor<f32>
    %66 = cirh.Sub %cst_21, %arg19 : tensor<f32>
    %67 = cirh.Sqrt %66 : tensor<f32>
    %68 = cirh.Div %67, %65 : tensor<f32>
    %69 = cirh.Sqrt %62 : tensor<8xf32>
    %70 = cirh.Add %69, %cst_14 : tensor<8xf32>
    %71 = cirh.Div %58, %70 : tensor<8xf32>
    %72 = cirh.BroadcastInDim %68 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<8xf32>
    %73 = cirh.Mul %71, %72 : tensor<8xf32>
    %74 = cirh.Mul %73, %cst_13 : tensor<8xf32>
    %75 = cirh.Sub %arg8, %74 : tensor<8xf32>
    %76 = cirh.Sub %cst_21, %arg2 : tensor<f32>
    %77 = cirh.Sub %cst_21, %arg3 : tensor<f32>
    %78 = cirh.Sqrt %77 : tensor<f32>
    %79 = cirh.Div %78, %76 : tensor<f32>
    %80 = cirh.MatMul %25, %5 {cs.internal = {}, transpose_a = true, transpose_b = false} : (tensor<4x32xf16>, tensor<4x16xf16>) -> tensor<32x16xf16>
    %81 = cirh.Cast %80 {Truncate = false} : tensor<32x16xf16> -> tensor<32x16xf32>
    %82 = cirh.Select %arg0, %81, %cst_12 : (tensor<32x16xi1>, tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %83 = cirh.Mul %arg20, %2 : tensor<32x16xf32>
    %84 = cirh.Mul %83, %cst_11 : tensor<32x16xf32>
    %85 = cirh.Mul %82, %82 : tensor<32x16xf32>
    %86 = cirh.Mul %85, %cst_10 : tensor<32x16xf32>
    %87 = cirh.Add %84, %86 : tensor<32x16xf32>
    %88 = cirh.Sqrt %87 : tensor<32x16xf32>
    %89 = cirh.Add %88, %cst_9 : tensor<32x16xf32>
    %90 = cirh.Mul %arg21, %2 : tensor<32x16xf32>
    %91 = cirh.Mul %90, %cst_8 : tensor<32x16xf32>
    %92 = cirh.Mul %82, %cst_7 : tensor<32x16xf32>
    %93 = cirh.Add %91, %92 : tensor<32x16xf32>
    %94 = cirh.Div %93, %89 : tensor<32x16xf32>
    %95 = cirh.BroadcastInDim %79 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<32x16xf32>
    %96 = cirh.Mul %94, %95 : tensor<32x16xf32>
    %97 = cirh.Mul %96, %cst_6 : tensor<32x16xf32>
    %98 = cirh.Sub %3, %97 : tensor<32x16xf32>
    %99 = cirh.Mul %98, %2 : tensor<32x16xf32>
    %100 = cirh.Mul %93, %2 : tensor<32x16xf32>
    %101 = cirh.Mul %87, %2 : tensor<32x16xf32>
    %102 = cirh.Sub %cst_21, %arg14 : tensor<f32>
    %103 = cirh.Sub %cst_21, %arg15 : tensor<f32>
    %104 = cirh.Sqrt %103 : tensor<f32>
    %105 = cirh.Div %104, %102 : tensor<f32>
    %106 = cirh.MatMul %22, %10 {cs.internal = {}, transpose_a = true, transpose_b = false} : (tensor<4x8xf16>, tensor<4x32xf16>) -> tensor<8x32xf16>
    %107 = cirh.Cast %106 {Truncate = false} : tensor<8x32xf16> -> tensor<8x32xf32>
    %108 = cirh.Select %arg1, %107, %cst_5 : (tensor<8x32xi1>, tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
    %109 = cirh.Mul %arg22, %11 : tensor<8x32xf32>
    %110 = cirh.Mul %109, %cst_4 : tensor<8x32xf32>
    %111 = cirh.Mul %108, %108 : tensor<8x32xf32>
    %112 = cirh.Mul %111, %cst_3 : tensor<8x32xf32>
    %113 = cirh.Add %110, %112 : tensor<8x32xf32>
    %114 = cirh.Sqrt %113 : tensor<8x32xf32>
    %115 = cirh.Add %114, %cst_2 : tensor<8x32xf32>
    %116 = cirh.Mul %arg23, %11 : tensor<8x32xf32>
    %117 = cirh.Mul %116, %cst_1 : tensor<8x32xf32>
    %118 = cirh.Mul %108, %cst_0 : tensor<8x32xf32>
    %119 = cirh.Add %117, %118 : tensor<8x32xf32>
    %120 = cirh.Div %119, %115 : tensor<8x32xf32>
    %121 = cirh.BroadcastInDim %105 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<8x32xf32>
    %122 = cirh.Mul %120, %121 : tensor<8x32xf32>
    %123 = cirh.Mul %122, %cst : tensor<8x32xf32>
    %124 = cirh.Sub %12, %123 : tensor<8x32xf32>
    %125 = cirh.Mul %124, %11 : tensor<8x32xf32>
    %126 = cirh.Mul %119, %11 : tensor<8x32xf32>
    %127 = cirh.Mul %113, %11 : tensor<8x32xf32>
    return %arg0, %arg1, %0, %1, %32, %36, %37, %38, %49, %50, %51, %58, %62, %63, %64, %75, %99, %100, %101, %125, %126, %127, %20 : tensor<32x16xi1>, tensor<8x32xi1>, tensor<f32>, tensor<f32>, tensor<32xf32>, tensor<32xf32>, tensor<f32>, tensor<f32>, tensor<32xf32>, tensor<f32>, tensor<f32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<8xf32>, tensor<32x16xf32>, tensor<32x16xf32>, tensor<32x16xf32>, tensor<8x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>, tensor<f32>
  }
}

