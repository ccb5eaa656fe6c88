// Maxout layers before the classes, as in McCann et al. 2017, in place of A.8's ReLU layers. A.8 found them worse (no
// figure), with the batch normalisation that these lack.
//
// Data and variables: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/sst/ablations/maxout.jsonnet -s runs/sst_maxout
(import '../elmo.jsonnet') + {
  model+: {
    local relu = super.feedforward,
    feedforward:: null,
    maxout: { num_layers: 2, output_dims: relu.hidden_dims, pool_sizes: 4, dropout: relu.dropout },
  },
}
