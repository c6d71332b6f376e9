module  {
  func @graph(%arg0: tensor<f32> {tf.aliasing_output = 0 : i64, tf.resource_name = "state.optimizer.state.0.beta1_power"}, %arg1: tensor<f32> {tf.aliasing_output = 1 : i64, tf.resource_name = "state.optimizer.state.0.beta2_power"}, %arg2: tensor<8x32xi1> {tf.aliasing_output = 19 : i64, tf.resource_name = "state.model.fc2.weight_mask"}, %arg3: tensor<8x32xf32> {cs.max_sparsity = 5.000000e-01 : f32, cs.min_sparsity = 5.000000e-01 : f32, cs.sparsity = 5.000000e-01 : f32, tf.aliasing_output = 20 : i64, tf.resource_name = "state.model.fc2.weight"}, %arg4: tensor<32x16xi1> {tf.aliasing_output = 15 : i64, tf.resource_name = "state.model.fc1.weight_mask"}, %arg5: tensor<32x16xf32> {cs.max_sparsity = 5.000000e-01 : f32, cs.min_sparsity = 5.000000e-01 : f32, cs.sparsity = 5.000000e-01 : f32, tf.aliasing_output = 16 : i64, tf.resource_name = "state.model.fc1.weight"}, %arg6: tensor<4x16xf32> {cs.input_name = "input_0"}, %arg7: tensor<32xf32> {tf.aliasing_output = 6 : i64, tf.resource_name = "state.model.fc1.bias"}, %arg8: tensor<8xf32> {tf.aliasing_output = 13 : i64, tf.resource_name = "state.model.fc2.bias"}, %arg9: tensor<4xi32> {cs.input_name = "input_1"}, %arg10: tensor<32xf32> {tf.aliasing_output = 2 : i64, tf.resource_name = "state.optimizer.state.1.exp_avg"}, %arg11: tensor<32xf32> {tf.aliasing_output = 3 : i64, tf.resource_name = "state.optimizer.state.1.exp_avg_sq"}, %arg12: tensor<f32> {tf.aliasing_output = 4 : i64, tf.resource_name = "state.optimizer.state.1.beta1_power"}, %arg13: tensor<f32> {tf.aliasing_output = 5 : i64, tf.resource_name = "state.optimizer.state.1.beta2_power"}, %arg14: tensor<f32> {tf.aliasing_output = 7 : i64, tf.resource_name = "state.optimizer.state.2.beta1_power"}, %arg15: tensor<f32> {tf.aliasing_output = 8 : i64, tf.resource_name = "state.optimizer.state.2.beta2_power"}, %arg16: tensor<8xf32> {tf.aliasing_output = 9 : i64, tf.resource_name = "state.optimizer.state.3.exp_avg"}, %arg17: tensor<8xf32> {tf.aliasing_output = 10 : i64, tf.resource_name = "state.optimizer.state.3.exp_avg_sq"}, %arg18: tensor<f32> {tf.aliasing_output = 11 : i64, tf.resource_name = "state.optimizer.state.3.beta1_power"}, %arg19: tensor<f32> {tf.aliasing_output = 12 : i64, tf.resource_name = "state.optimizer.state.3.beta2_power"}, %arg20: tensor<i64> {tf.aliasing_output = 14 : i64, tf.resource_name = "state.sparsity.1.0.step"}, %arg21: tensor<32x16xf32> {cs.max_sparsity = 5.000000e-01 : f32, cs.min_sparsity = 5.000000e-01 : f32, cs.sparsity = 5.000000e-01 : f32, tf.aliasing_output = 18 : i64, tf.resource_name = "state.optimizer.state.0.exp_avg_sq"}, %arg22: tensor<32x16xf32> {cs.max_sparsity = 5.000000e-01 : f32, cs.min_sparsity = 5.000000e-01 : f32, cs.sparsity = 5.000000e-01 : f32, tf.aliasing_output = 17 : i64, tf.resource_name = "state.optimizer.state.0.exp_avg"}, %arg23: tensor<8x32xf32> {cs.max_sparsity = 5.000000e-01 : f32, cs.min_sparsity = 5.000000e-01 : f32, cs.sparsity = 5.000000e-01 : f32, tf.aliasing_output = 22 : i64, tf.resource_name = "state.optimizer.state.2.exp_avg_sq"}, %arg24: tensor<8x32xf32> {cs.max_sparsity = 5.000000e-01 : f32, cs.min_sparsity = 5.000000e-01 : f32, cs.sparsity = 5.000000e-01 : f32, tf.aliasing_output = 21 : i64, tf.resource_name = "state.optimizer.state.2.exp_avg"}) -> (tensor<f32>, tensor<f32>, tensor<32xf32>, tensor<32xf32>, tensor<f32>, tensor<f32>, tensor<32xf32>, tensor<f32>, tensor<f32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<8xf32>, tensor<i64>, tensor<32x16xi1>, tensor<32x16xf32>, tensor<32x16xf32>, tensor<32x16xf32>, tensor<8x32xi1>, tensor<8x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>, tensor<f32> {cs.output_name = "output_l"}) attributes {cs.fp16_type = "float16", cs.pol = 1 : i64} {
    %cst = cirh.Const dense<0> : tensor<1xi64>
    %cst_0 = cirh.Const dense<1> : tensor<1xi64>
    %cst_1 = cirh.Const dense<0xFF800000> : tensor<8x32xf32>
    %cst_2 = cirh.Const dense<false> : tensor<256xi1>
    %cst_3 = cirh.Const dense<256> : tensor<i32>
    %cst_4 = cirh.Const dense<1.000000e-03> : tensor<8x32xf32>
    %cst_5 = cirh.Const dense<0.100000024> : tensor<8x32xf32>
    %cst_6 = cirh.Const dense<0.899999976> : tensor<8x32xf32>
    %cst_7 = cirh.Const dense<9.99999997E-7> : tensor<8x32xf32>
    %cst_8 = cirh.Const dense<9.99987125E-4> : tensor<8x32xf32>
    %cst_9 = cirh.Const dense<9.990000e-01> : tensor<8x32xf32>
    %cst_10 = cirh.Const dense<0.00999999977> : tensor<8x32xf32>
    %cst_11 = cirh.Const dense<true> : tensor<256xi1>
    %cst_12 = cirh.Const dense<0> : tensor<i32>
    %cst_13 = cirh.Const dense<2147483647> : tensor<i32>
    %cst_14 = cirh.Const dense<1> : tensor<i32>
    %cst_15 = cirh.Const dense<0xFF800000> : tensor<32x16xf32>
    %cst_16 = cirh.Const dense<false> : tensor<512xi1>
    %cst_17 = cirh.Const dense<512> : tensor<i32>
    %cst_18 = cirh.Const dense<1.000000e-03> : tensor<32x16xf32>
    %cst_19 = cirh.Const dense<0.100000024> : tensor<32x16xf32>
    %cst_20 = cirh.Const dense<0.899999976> : tensor<32x16xf32>
    %cst_21 = cirh.Const dense<9.99999997E-7> : tensor<32x16xf32>
    %cst_22 = cirh.Const dense<9.99987125E-4> : tensor<32x16xf32>
    %cst_23 = cirh.Const dense<9.990000e-01> : tensor<32x16xf32>
    %cst_24 = cirh.Const dense<0.00999999977> : tensor<32x16xf32>
    %cst_25 = cirh.Const dense<true> : tensor<512xi1>
    %cst_26 = cirh.Const dense<1.000000e-03> : tensor<8xf32>
    %cst_27 = cirh.Const dense<9.99999997E-7> : tensor<8xf32>
    %cst_28 = cirh.Const dense<0.00999999977> : tensor<8xf32>
    %cst_29 = cirh.Const dense<9.99987125E-4> : tensor<8xf32>
    %cst_30 = cirh.Const dense<9.990000e-01> : tensor<8xf32>
    %cst_31 = cirh.Const dense<0.100000024> : tensor<8xf32>
    %cst_32 = cirh.Const dense<0.899999976> : tensor<8xf32>
    %cst_33 = cirh.Const dense<1.000000e-03> : tensor<32xf32>
    %cst_34 = cirh.Const dense<9.99999997E-7> : tensor<32xf32>
    %cst_35 = cirh.Const dense<0.00999999977> : tensor<32xf32>
    %cst_36 = cirh.Const dense<9.99987125E-4> : tensor<32xf32>
    %cst_37 = cirh.Const dense<9.990000e-01> : tensor<32xf32>
    %cst_38 = cirh.Const dense<0.100000024> : tensor<32xf32>
    %cst_39 = cirh.Const dense<0.899999976> : tensor<32xf32>
    %cst_40 = cirh.Const dense<1.000000e+00> : tensor<f32>
    %cst_41 = cirh.Const dense<0.000000e+00> : tensor<32x16xf32>
    %cst_42 = cirh.Const dense<[32, 16]> : tensor<2xi64>
    %cst_43 = cirh.Const dense<0.000000e+00> : tensor<4x32xf16>
    %cst_44 = cirh.Const dense<0.000000e+00> : tensor<8x32xf32>
    %cst_45 = cirh.Const dense<[8, 32]> : tensor<2xi64>
    %cst_46 = cirh.Const dense<2.560000e+02> : tensor<f32>
    %cst_47 = cirh.Const dense<2> : tensor<i64>
    %cst_48 = cirh.Const dense<5.000000e-01> : tensor<f32>
    %cst_49 = cirh.Const dense<0.000000e+00> : tensor<f32>
    %cst_50 = cirh.Const dense<5.120000e+02> : tensor<f32>
    %cst_51 = cirh.Const dense<7.500000e-01> : tensor<f32>
    %cst_52 = cirh.Const dense<0xFF800000> : tensor<f32>
    %cst_53 = cirh.Const dense<9.99999997E-7> : tensor<f32>
    %cst_54 = cirh.Const dense<9.990000e-01> : tensor<f32>
    %cst_55 = cirh.Const dense<0.899999976> : tensor<f32>
    %cst_56 = cirh.Const dense<0> : tensor<i64>
    %cst_57 = cirh.Const dense<1> : tensor<i64>
    %cst_58 = cirh.Const dense<4.000000e+00> : tensor<4x8xf32>
    %cst_59 = cirh.Const dense<4.000000e+00> : tensor<f32>
    %0 = cirh.Mul %arg0, %cst_55 : tensor<f32>
    %1 = cirh.Mul %arg1, %cst_54 : tensor<f32>
    %2 = cirh.Cast %arg2 {Truncate = false} : tensor<8x32xi1> -> tensor<8x32xf32>
    %3 = cirh.Mul %arg3, %2 : tensor<8x32xf32>
    %4 = cirh.Cast %3 {Truncate = false} : tensor<8x32xf32> -> tensor<8x32xf16>
    %5 = cirh.Cast %arg4 {Truncate = false} : tensor<32x16xi1> -> tensor<32x16xf32>
    %6 = cirh.Mul %arg5, %5 : tensor<32x16xf32>
    %7 = cirh.Cast %6 {Truncate = false} : tensor<32x16xf32> -> tensor<32x16xf16>
    %8 = cirh.Cast %arg6 {Truncate = false} : tensor<4x16xf32> -> tensor<4x16xf16>
    %9 = cirh.Cast %arg7 {Truncate = false} : tensor<32xf32> -> tensor<32xf16>
    %10 = cirh.MatMul %8, %7 {cs.internal = {}, transpose_a = false, transpose_b = true} : (tensor<4x16xf16>, tensor<32x16xf16>) -> tensor<4x32xf16>
    %11 = cirh.BroadcastInDim %9 {broadcast_dimensions = dense<1> : tensor<1xi64>} : (tensor<32xf16>) -> tensor<4x32xf16>
    %12 = cirh.Add %11, %10 : tensor<4x32xf16>
    %13 = cirh.Relu %12 : tensor<4x32xf16>
    %14 = cirh.Cast %arg8 {Truncate = false} : tensor<8xf32> -> tensor<8xf16>
    %15 = cirh.MatMul %13, %4 {cs.internal = {}, transpose_a = false, transpose_b = true} : (tensor<4x32xf16>, tensor<8x32xf16>) -> tensor<4x8xf16>
    %16 = cirh.BroadcastInDim %14 {broadcast_dimensions = dense<1> : tensor<1xi64>} : (tensor<8xf16>) -> tensor<4x8xf16>
    %17 = cirh.Add %16, %15 : tensor<4x8xf16>
    %18 = cirh.Cast %17 {Truncate = false} : tensor<4x8xf16> -> tensor<4x8xf32>
    %19 = cirh.Cast %arg9 {Truncate = false} : tensor<4xi32> -> tensor<4xi64>
    %loss, %backprop = cirh.SparseSoftmaxCrossEntropyWithLogits %18, %19 {axis = 1 : i64} : (tensor<4x8xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4x8xf32>)
    %20 = cirh.Reduce %loss {dimensions = dense<0> : tensor<1xi64>, keep_dims = dense<> : tensor<0xi64>, reduce_kind = "ADD"} : (tensor<4xf32>) -> tensor<f32>
    %21 = cirh.Div %20, %cst_59 : tensor<f32>
    %22 = cirh.Div %backprop, %cst_58 : tensor<4x8xf32>
    %23 = cirh.Cast %22 {Truncate = false} : tensor<4x8xf32> -> tensor<4x8xf16>
    %24 = cirh.Reduce %23 {dimensions = dense<0> : tensor<1xi64>, keep_dims = dense<> : tensor<0xi64>, reduce_kind = "ADD"} : (tensor<4x8xf16>) -> tensor<8xf16>
    %25 = cirh.BroadcastInDim %24 {broadcast_dimensions = dense<1> : tensor<1xi64>} : (tensor<8xf16>) -> tensor<1x8xf16>
    %26 = cirh.Reshape %25 : (tensor<1x8xf16>) -> tensor<8xf16>
    %27 = cirh.Cast %26 {Truncate = false} : tensor<8xf16> -> tensor<8xf32>
    %28 = cirh.L2Norm %27 {dims = dense<0> : tensor<1xi64>, keepdim = false} : (tensor<8xf32>) -> tensor<f32>
    %29 = cirh.MatMul %23, %13 {cs.internal = {}, transpose_a = true, transpose_b = false} : (tensor<4x8xf16>, tensor<4x32xf16>) -> tensor<8x32xf16>
    %30 = cirh.Cast %29 {Truncate = false} : tensor<8x32xf16> -> tensor<8x32xf32>
    %31 = cirh.Select %arg2, %30, %cst_44 : (tensor<8x32xi1>, tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
    %32 = cirh.L2Norm %31 {dims = dense<[0, 1]> : tensor<2xi64>, keepdim = false} : (tensor<8x32xf32>) -> tensor<f32>
    %33 = cirh.MatMul %23, %4 {cs.internal = {}, transpose_a = false, transpose_b = false} : (tensor<4x8xf16>, tensor<8x32xf16>) -> tensor<4x32xf16>
    %34 = cirh.Compare %13, %cst_43 {comparison_direction = "GT"} : tensor<4x32xf16> -> tensor<4x32xi1>
    %35 = cirh.Select %34, %33, %cst_43 : (tensor<4x32xi1>, tensor<4x32xf16>, tensor<4x32xf16>) -> tensor<4x32xf16>
    %36 = cirh.Reduce %35 {dimensions = dense<0> : tensor<1xi64>, keep_dims = dense<> : tensor<0xi64>, reduce_kind = "ADD"} : (tensor<4x32xf16>) -> tensor<32xf16>
    %37 = cirh.BroadcastInDim %36 {broadcast_dimensions = dense<1> : tensor<1xi64>} : (tensor<32xf16>) -> tensor<1x32xf16>
    %38 = cirh.Reshape %37 : (tensor<1x32xf16>) -> tensor<32xf16>
    %39 = cirh.Cast %38 {Truncate = false} : tensor<32xf16> -> tensor<32xf32>
    %40 = cirh.L2Norm %39 {dims = dense<0> : tensor<1xi64>, keepdim = false} : (tensor<32xf32>) -> tensor<f32>
    %41 = cirh.MatMul %35, %8 {cs.internal = {}, transpose_a = true, transpose_b = false} : (tensor<4x32xf16>, tensor<4x16xf16>) -> tensor<32x16xf16>
    %42 = cirh.Cast %41 {Truncate = false} : tensor<32x16xf16> -> tensor<32x16xf32>
    %43 = cirh.Select %arg4, %42, %cst_41 : (tensor<32x16xi1>, tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %44 = cirh.L2Norm %43 {dims = dense<[0, 1]> : tensor<2xi64>, keepdim = false} : (tensor<32x16xf32>) -> tensor<f32>
    %45 = cirh.BroadcastInDim %44 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<1xf32>
    %46 = cirh.BroadcastInDim %40 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<1xf32>
    %47 = cirh.BroadcastInDim %32 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<1xf32>
    %48 = cirh.BroadcastInDim %28 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<1xf32>
    %49 = cirh.Concat %45, %46, %47, %48 {axis = 0 : i64} : (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<4xf32>
    %50 = cirh.L2Norm %49 {dims = dense<0> : tensor<1xi64>, keepdim = false} : (tensor<4xf32>) -> tensor<f32>
    %51 = cirh.Add %50, %cst_53 : tensor<f32>
    %52 = cirh.Reciprocal %51 : tensor<f32>
    %53 = cirh.Clamp %52, %cst_52, %cst_40 : (tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %54 = cirh.BroadcastInDim %53 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<32xf32>
    %55 = cirh.Mul %39, %54 : tensor<32xf32>
    %56 = cirh.Mul %arg10, %cst_39 : tensor<32xf32>
    %57 = cirh.Mul %55, %cst_38 : tensor<32xf32>
    %58 = cirh.Add %56, %57 : tensor<32xf32>
    %59 = cirh.Mul %arg11, %cst_37 : tensor<32xf32>
    %60 = cirh.Mul %55, %55 : tensor<32xf32>
    %61 = cirh.Mul %60, %cst_36 : tensor<32xf32>
    %62 = cirh.Add %59, %61 : tensor<32xf32>
    %63 = cirh.Mul %arg12, %cst_55 : tensor<f32>
    %64 = cirh.Mul %arg13, %cst_54 : tensor<f32>
    %65 = cirh.Mul %arg7, %cst_35 : tensor<32xf32>
    %66 = cirh.Sub %cst_40, %arg12 : tensor<f32>
    %67 = cirh.Sub %cst_40, %arg13 : tensor<f32>
    %68 = cirh.Sqrt %67 : tensor<f32>
    %69 = cirh.Div %68, %66 : tensor<f32>
    %70 = cirh.Sqrt %62 : tensor<32xf32>
    %71 = cirh.Add %70, %cst_34 : tensor<32xf32>
    %72 = cirh.Div %58, %71 : tensor<32xf32>
    %73 = cirh.BroadcastInDim %69 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<32xf32>
    %74 = cirh.Mul %72, %73 : tensor<32xf32>
    %75 = cirh.Add %74, %65 : tensor<32xf32>
    %76 = cirh.Mul %75, %cst_33 : tensor<32xf32>
    %77 = cirh.Sub %arg7, %76 : tensor<32xf32>
    %78 = cirh.Mul %arg14, %cst_55 : tensor<f32>
    %79 = cirh.Mul %arg15, %cst_54 : tensor<f32>
    %80 = cirh.BroadcastInDim %53 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<8xf32>
    %81 = cirh.Mul %27, %80 : tensor<8xf32>
    %82 = cirh.Mul %arg16, %cst_32 : tensor<8xf32>
    %83 = cirh.Mul %81, %cst_31 : tensor<8xf32>
    %84 = cirh.Add %82, %83 : tensor<8xf32>
    %85 = cirh.Mul %arg17, %cst_30 : tensor<8xf32>
    %86 = cirh.Mul %81, %81 : tensor<8xf32>
    %87 = cirh.Mul %86, %cst_29 : tensor<8xf32>
    %88 = cirh.Add %85, %87 : tensor<8xf32>
    %89 = cirh.Mul %arg18, %cst_55 : tensor<f32>
    %90 = cirh.Mul %arg19, %cst_54 : tensor<f32>
    %91 = cirh.Mul %arg8, %cst_28 : tensor<8xf32>
    %92 = cirh.Sub %cst_40, %arg18 : tensor<f32>
    %93 = cirh.Sub %cst_40, %arg19 : tensor<f32>
    %94 = cirh.Sqrt %93 : tensor<f32>
    %95 = cirh.Div %94, %92 : tensor<f32>
    %96 = cirh.Sqrt %88 : tensor<8xf32>
    %97 = cirh.Add %96, %cst_27 : tensor<8xf32>
    %98 = cirh.Div %84, %97 : tensor<8xf32>
    %99 = cirh.BroadcastInDim %95 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<8xf32>
    %100 = cirh.Mul %98, %99 : tensor<8xf32>
    %101 = cirh.Add %100, %91 : tensor<8xf32>
    %102 = cirh.Mul %101, %cst_26 : tensor<8xf32>
    %103 = cirh.Sub %arg8, %102 : tensor<8xf32>
    %104 = cirh.Add %arg20, %cst_57 : tensor<i64>
    %105 = cirh.RandomUniform %cst_49, %cst_40, %cst_42 {global_seed = 0 : i64} : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<32x16xf32>
    %106 = cirh.Mul %6, %cst_24 : tensor<32x16xf32>
    %107 = cirh.Sub %cst_40, %arg0 : tensor<f32>
    %108 = cirh.Sub %cst_40, %arg1 : tensor<f32>
    %109 = cirh.Sqrt %108 : tensor<f32>
    %110 = cirh.Div %109, %107 : tensor<f32>
    %111 = cirh.BroadcastInDim %53 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<32x16xf32>
    %112 = cirh.Mul %43, %111 : tensor<32x16xf32>
    %113 = cirh.Mul %arg21, %5 : tensor<32x16xf32>
    %114 = cirh.Mul %113, %cst_23 : tensor<32x16xf32>
    %115 = cirh.Mul %112, %112 : tensor<32x16xf32>
    %116 = cirh.Mul %115, %cst_22 : tensor<32x16xf32>
    %117 = cirh.Add %114, %116 : tensor<32x16xf32>
    %118 = cirh.Sqrt %117 : tensor<32x16xf32>
    %119 = cirh.Add %118, %cst_21 : tensor<32x16xf32>
    %120 = cirh.Mul %arg22, %5 : tensor<32x16xf32>
    %121 = cirh.Mul %120, %cst_20 : tensor<32x16xf32>
    %122 = cirh.Mul %112, %cst_19 : tensor<32x16xf32>
    %123 = cirh.Add %121, %122 : tensor<32x16xf32>
    %124 = cirh.Div %123, %119 : tensor<32x16xf32>
    %125 = cirh.BroadcastInDim %110 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<32x16xf32>
    %126 = cirh.Mul %124, %125 : tensor<32x16xf32>
    %127 = cirh.Add %126, %106 : tensor<32x16xf32>
    %128 = cirh.Mul %127, %cst_18 : tensor<32x16xf32>
    %129 = cirh.Sub %6, %128 : tensor<32x16xf32>
    %130 = cirh.Mul %129, %5 : tensor<32x16xf32>
    %131 = cirh.Abs %130 : tensor<32x16xf32>
    %132 = cirh.Reshape %131 : (tensor<32x16xf32>) -> tensor<512xf32>
    %topKValues, %topKIndices = cirh.TopK %132 {dimension = 0 : i32, k = 512 : i32, largest = true, sorted = true} : (tensor<512xf32>) -> (tensor<512xf32>, tensor<512xi64>)
    %133 = cirh.Slice %topKIndices, %cst, %cst_0 : (tensor<512xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
    %134 = cirh.Cast %arg4 {Truncate = false} : tensor<32x16xi1> -> tensor<32x16xi64>
    %135 = cirh.Reduce %134 {dimensions = dense<[0, 1]> : tensor<2xi64>, keep_dims = dense<> : tensor<0xi64>, reduce_kind = "ADD"} : (tensor<32x16xi64>) -> tensor<i64>
    %136 = cirh.Cast %135 {Truncate = false} : tensor<i64> -> tensor<f32>
    %137 = cirh.Mul %136, %cst_51 : tensor<f32>
    %138 = cirh.Cast %137 {Truncate = false} : tensor<f32> -> tensor<i32>
    %139 = cirh.Arange %cst_12, %cst_17, %cst_14 {dim = 0 : i64} : (tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<512xi32>
    %140 = cirh.BroadcastInDim %138 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<i32>) -> tensor<512xi32>
    %141 = cirh.Compare %139, %140 {comparison_direction = "LT"} : tensor<512xi32> -> tensor<512xi1>
    %142 = cirh.BroadcastInDim %133 {broadcast_dimensions = dense<0> : tensor<1xi64>} : (tensor<1xi64>) -> tensor<512xi64>
    %143 = cirh.Select %141, %topKIndices, %142 : (tensor<512xi1>, tensor<512xi64>, tensor<512xi64>) -> tensor<512xi64>
    %144 = cirh.Scatter %cst_16, %143, %cst_25 {axis = 0 : i64, reduce_kind = "NONE"} : (tensor<512xi1>, tensor<512xi64>, tensor<512xi1>) -> tensor<512xi1>
    %145 = cirh.Reshape %144 : (tensor<512xi1>) -> tensor<32x16xi1>
    %146 = cirh.Select %145, %cst_15, %105 : (tensor<32x16xi1>, tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %147 = cirh.Reshape %146 : (tensor<32x16xf32>) -> tensor<512xf32>
    %topKValues_60, %topKIndices_61 = cirh.TopK %147 {dimension = 0 : i32, k = 512 : i32, largest = true, sorted = true} : (tensor<512xf32>) -> (tensor<512xf32>, tensor<512xi64>)
    %148 = cirh.Slice %topKIndices_61, %cst, %cst_0 : (tensor<512xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
    %149 = cirh.Clamp %cst_48, %cst_49, %cst_40 : (tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %150 = cirh.Sub %cst_40, %149 : tensor<f32>
    %151 = cirh.Mul %150, %cst_50 : tensor<f32>
    %152 = cirh.Cast %151 {Truncate = false} : tensor<f32> -> tensor<i32>
    %153 = cirh.Sub %152, %138 : tensor<i32>
    %154 = cirh.Clamp %153, %cst_12, %cst_13 : (tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %155 = cirh.BroadcastInDim %154 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<i32>) -> tensor<512xi32>
    %156 = cirh.Compare %139, %155 {comparison_direction = "LT"} : tensor<512xi32> -> tensor<512xi1>
    %157 = cirh.BroadcastInDim %148 {broadcast_dimensions = dense<0> : tensor<1xi64>} : (tensor<1xi64>) -> tensor<512xi64>
    %158 = cirh.Select %156, %topKIndices_61, %157 : (tensor<512xi1>, tensor<512xi64>, tensor<512xi64>) -> tensor<512xi64>
    %159 = cirh.Scatter %cst_16, %158, %cst_25 {axis = 0 : i64, reduce_kind = "NONE"} : (tensor<512xi1>, tensor<512xi64>, tensor<512xi1>) -> tensor<512xi1>
    %160 = cirh.Reshape %159 : (tensor<512xi1>) -> tensor<32x16xi1>
    %161 = cirh.Or %145, %160 : tensor<32x16xi1>
    %162 = cirh.Div %104, %cst_47 : tensor<i64>
    %163 = cirh.Mul %162, %cst_47 : tensor<i64>
    %164 = cirh.Sub %104, %163 : tensor<i64>
    %165 = cirh.Compare %164, %cst_56 {comparison_direction = "EQ"} : tensor<i64> -> tensor<i1>
    %166 = cirh.BroadcastInDim %165 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<i1>) -> tensor<32x16xi1>
    %167 = cirh.Select %166, %161, %arg4 : (tensor<32x16xi1>, tensor<32x16xi1>, tensor<32x16xi1>) -> tensor<32x16xi1>
    %168 = cirh.Cast %167 {Truncate = false} : tensor<32x16xi1> -> tensor<32x16xf32>
    %169 = cirh.Mul %130, %168 : tensor<32x16xf32>
    %170 = cirh.Mul %123, %5 : tensor<32x16xf32>
    %171 = cirh.Mul %170, %168 : tensor<32x16xf32>
    %172 = cirh.Mul %117, %5 : tensor<32x16xf32>
    %173 = cirh.Mul %172, %168 : tensor<32x16xf32>
    %174 = cirh.RandomUniform %cst_49, %cst_40, %cst_45 {global_seed = 0 : i64} : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<8x32xf32>
    %175 = cirh.Mul %3, %cst_10 : tensor<8x32xf32>
    %176 = cirh.Sub %cst_40, %arg14 : tensor<f32>
    %177 = cirh.Sub %cst_40, %arg15 : tensor<f32>
    %178 = cirh.Sqrt %177 : tensor<f32>
    %179 = cirh.Div %178, %176 : tensor<f32>
    %180 = cirh.BroadcastInDim %53 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<8x32xf32>
    %181 = cirh.Mul %31, %180 : tensor<8x32xf32>
    %182 = cirh.Mul %arg23, %2 : tensor<8x32xf32>
    %183 = cirh.Mul %182, %cst_9 : tensor<8x32xf32>
    %184 = cirh.Mul %181, %181 : tensor<8x32xf32>
    %185 = cirh.Mul %184, %cst_8 : tensor<8x32xf32>
    %186 = cirh.Add %183, %185 : tensor<8x32xf32>
    %187 = cirh.Sqrt %186 : tensor<8x32xf32>
    %188 = cirh.Add %187, %cst_7 : tensor<8x32xf32>
    %189 = cirh.Mul %arg24, %2 : tensor<8x32xf32>
    %190 = cirh.Mul %189, %cst_6 : tensor<8x32xf32>
    %191 = cirh.Mul %181, %cst_5 : tensor<8x32xf32>
    %192 = cirh.Add %190, %191 : tensor<8x32xf32>
    %193 = cirh.Div %192, %188 : tensor<8x32xf32>
    %194 = cirh.BroadcastInDim %179 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<8x32xf32>
    %195 = cirh.Mul %193, %194 : tensor<8x32xf32>
    %196 = cirh.Add %195, %175 : tensor<8x32xf32>
    %197 = cirh.Mul %196, %cst_4 : tensor<8x32xf32>
    %198 = cirh.Sub %3, %197 : tensor<8x32xf32>
    %199 = cirh.Mul %198, %2 : tensor<8x32xf32>
    %200 = cirh.Abs %199 : tensor<8x32xf32>
    %201 = cirh.Reshape %200 : (tensor<8x32xf32>) -> tensor<256xf32>
    %topKValues_62, %topKIndices_63 = cirh.TopK %201 {dimension = 0 : i32, k = 256 : i32, largest = true, sorted = true} : (tensor<256xf32>) -> (tensor<256xf32>, tensor<256xi64>)
    %202 = cirh.Slice %topKIndices_63, %cst, %cst_0 : (tensor<256xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
    %203 = cirh.Cast %arg2 {Truncate = false} : tensor<8x32xi1> -> tensor<8x32xi64>
    %204 = cirh.Reduce %203 {dimensions = dense<[0, 1]> : tensor<2xi64>, keep_dims = dense<> : tensor<0xi64>, reduce_kind = "ADD"} : (tensor<8x32xi64>) -> tensor<i64>
    %205 = cirh.Cast %204 {Truncate = false} : tensor<i64> -> tensor<f32>
    %206 = cirh.Mul %205, %cst_51 : tensor<f32>
    %207 = cirh.Cast %206 {Truncate = false} : tensor<f32> -> tensor<i32>
    %208 = cirh.Arange %cst_12, %cst_3, %cst_14 {dim = 0 : i64} : (tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<256xi32>
    %209 = cirh.BroadcastInDim %207 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<i32>) -> tensor<256xi32>
    %210 = cirh.Compare %208, %209 {comparison_direction = "LT"} : tensor<256xi32> -> tensor<256xi1>
    %211 = cirh.BroadcastInDim %202 {broadcast_dimensions = dense<0> : tensor<1xi64>} : (tensor<1xi64>) -> tensor<256xi64>
    %212 = cirh.Select %210, %topKIndices_63, %211 : (tensor<256xi1>, tensor<256xi64>, tensor<256xi64>) -> tensor<256xi64>
    %213 = cirh.Scatter %cst_2, %212, %cst_11 {axis = 0 : i64, reduce_kind = "NONE"} : (tensor<256xi1>, tensor<256xi64>, tensor<256xi1>) -> tensor<256xi1>
    %214 = cirh.Reshape %213 : (tensor<256xi1>) -> tensor<8x32xi1>
    %215 = cirh.Select %214, %cst_1, %174 : (tensor<8x32xi1>, tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
    %216 = cirh.Reshape %215 : (tensor<8x32xf32>) -> tensor<256xf32>
    %topKValues_64, %topKIndices_65 = cirh.TopK %216 {dimension = 0 : i32, k = 256 : i32, largest = true, sorted = true} : (tensor<256xf32>) -> (tensor<256xf32>, tensor<256xi64>)
    %217 = cirh.Slice %topKIndices_65, %cst, %cst_0 : (tensor<256xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
    %218 = cirh.Mul %150, %cst_46 : tensor<f32>
    %219 = cirh.Cast %218 {Truncate = false} : tensor<f32> -> tensor<i32>
    %220 = cirh.Sub %219, %207 : tensor<i32>
    %221 = cirh.Clamp %220, %cst_12, %cst_13 : (tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %222 = cirh.BroadcastInDim %221 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<i32>) -> tensor<256xi32>
    %223 = cirh.Compare %208, %222 {comparison_direction = "LT"} : tensor<256xi32> -> tensor<256xi1>
    %224 = cirh.BroadcastInDim %217 {broadcast_dimensions = dense<0> : tensor<1xi64>} : (tensor<1xi64>) -> tensor<256xi64>
    %225 = cirh.Select %223, %topKIndices_65, %224 : (tensor<256xi1>, tensor<256xi64>, tensor<256xi64>) -> tensor<256xi64>
    %226 = cirh.Scatter %cst_2, %225, %cst_11 {axis = 0 : i64, reduce_kind = "NONE"} : (tensor<256xi1>, tensor<256xi64>, tensor<256xi1>) -> tensor<256xi1>
    %227 = cirh.Reshape %226 : (tensor<256xi1>) -> tensor<8x32xi1>
    %228 = cirh.Or %214, %227 : tensor<8x32xi1>
    %229 = cirh.BroadcastInDim %165 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<i1>) -> tensor<8x32xi1>
    %230 = cirh.Select %229, %228, %arg2 : (tensor<8x32xi1>, tensor<8x32xi1>, tensor<8x32xi1>) -> tensor<8x32xi1>
    %231 = cirh.Cast %230 {Truncate = false} : tensor<8x32xi1> -> tensor<8x32xf32>
    %232 = cirh.Mul %199, %231 : tensor<8x32xf32>
    %233 = cirh.Mul %192, %2 : tensor<8x32xf32>
    %234 = cirh.Mul %233, %231 : tensor<8x32xf32>
    %235 = cirh.Mul %186, %2 : tensor<8x32xf32>
    %236 = cirh.Mul %235, %231 : tensor<8x32xf32>
    return %0, %1, %58, %62, %63, %64, %77, %78, %79, %84, %88, %89, %90, %103, %104, %167, %169, %171, %173, %230, %232, %234, %236, %21 : tensor<f32>, tensor<f32>, tensor<32xf32>, tensor<32xf32>, tensor<f32>, tensor<f32>, tensor<32xf32>, tensor<f32>, tensor<f32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<8xf32>, tensor<i64>, tensor<32x16xi1>, tensor<32x16xf32>, tensor<32x16xf32>, tensor<32x16xf32>, tensor<8x32xi1>, tensor<8x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>, tensor<f32>
  }
}

