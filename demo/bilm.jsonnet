// The demo's biLM: training_configs/bilm/small.jsonnet at a size that learns the invented text in fixtures/ in half a minute.
(import '../training_configs/bilm/small.jsonnet') {
  train_data_path: 'fixtures/data/demo/text.txt',
  validation_data_path: 'fixtures/data/demo/heldout.txt',
  batch_size:: 32,
  vocabulary+: { min_count: 1 },
  model+: {
    bilm+: { cell_dim: 128, projection_dim: 32, filters: [[1, 16], [2, 32], [3, 32]] },
    // A few hundred words need no sampling.
    softmax: { type: 'full' },
  },
  trainer+: { num_epochs: 12 },
}
