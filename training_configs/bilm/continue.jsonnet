// Trains a language model on, on plenty of text: ELMO_BILM, by small.jsonnet's recipe but with Adam. For little text,
// such as a task's, there is finetune.jsonnet.
//
//   export ELMO_BILM=wiki-base ELMO_BILM_TRAIN='text/train-*.txt.gz' ELMO_BILM_DEV=text/heldout.txt.gz
//   allennlp train training_configs/bilm/continue.jsonnet -s runs/bilm
//   allennlp bilm-export runs/bilm/model.tar.gz exported --softmax
//
// A wider one than it starts from: ELMO_BILM=wider after
//
//   allennlp bilm-widen wiki-base wider --cell-dim 1024 --projection-dim 256
//
// A processor that multiplies in bfloat16 (lscpu: avx512_bf16, amx_bf16) trains up to twice as fast in it:
//
//   -o '{"trainer.use_amp": true, "model.bilm.precision": "bfloat16"}'
(import 'small.jsonnet') + (import 'start.libsonnet') + {
  local config = self,
  // Adam for all of it: orthogonal steps, small.jsonnet's, undo more of a trained biLM at first. After 2.6 M words from
  // wiki-large, with more filters, at rates of 0.003 and 0.001, the perplexity of 1,000 held-out sentences had gone from
  // 78.5 to 93.4; from wiki-base, made wider, with Adam at 0.001, from 79.7 to 84.0.
  //
  // At the biLM's rate Adam makes a trained softmax worse at first; probably its rare words, which get steps as long as
  // any other's. After 171 updates from wiki-base, made wider, with one rate for all, the perplexity of 1,000 held-out
  // sentences had gone from 79.7 to 86.7; with a tenth of it for the softmax, to 83.0.
  trainer+: {
    optimizer: {
      type: 'dense_sparse_adam',
      lr: config.learning_rate,
      betas: [0.9, 0.99],
      parameter_groups: [[['^softmax'], { lr: config.learning_rate / 5 }]],
    },
  },
}
