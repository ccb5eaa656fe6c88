// A small biLM that trains on two CPU cores in hours: 512 cells, 128-d projection, 336 character filters. Not in the paper.
//
// Data: plain or gzipped text, one tokenised sentence a line; a file, a glob or a folder.
//
//   export ELMO_BILM_TRAIN='text/train-*.txt.gz' ELMO_BILM_DEV=text/heldout.txt.gz
//   allennlp train training_configs/bilm/small.jsonnet -s runs/bilm
//   allennlp train training_configs/bilm/small.jsonnet -s runs/bilm --recover       # after a kill, at any moment
//   allennlp bilm-export runs/bilm/model.tar.gz exported
(import 'base.libsonnet') {
  batch_size:: 64,
  vocabulary+: { max_size: 50000 },
  model+: {
    bilm+: {
      cell_dim: 512,
      projection_dim: 128,
      filters: [[1, 16], [2, 32], [3, 64], [4, 96], [5, 128]],
    },
    softmax+: { num_samples: 2048 },
  },
}
