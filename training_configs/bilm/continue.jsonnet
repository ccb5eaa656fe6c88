// Trains a language model on, on plenty of text: ELMO_BILM, by small.jsonnet's recipe. For little text, such as a
// task's, there is finetune.jsonnet.
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
  // At the biLM's rate Adam makes a trained softmax worse at first; probably its rare words, which get steps as long as
  // any other's. After 171 updates from wiki-base, made wider, with one rate for all, the perplexity of 1,000 held-out
  // sentences had gone from 79.7 to 86.7; with a tenth of it for the softmax, to 83.0. (Adam trained the biLM too there.)
  trainer+: { optimizer+: { parameter_groups: [[['^softmax'], { lr: config.learning_rate / 5 }]] } },
}
