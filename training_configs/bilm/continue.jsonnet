// Trains a language model on, on plenty of text: ELMO_BILM, by small.jsonnet's recipe. For little text, such as a
// task's, there is finetune.jsonnet.
//
//   export ELMO_BILM=wiki-base ELMO_BILM_TRAIN='text/train-*.txt.gz' ELMO_BILM_DEV=text/heldout.txt.gz
//   allennlp train training_configs/bilm/continue.jsonnet -s runs/bilm
//   allennlp bilm-export runs/bilm/model.tar.gz exported --softmax
//
// A processor that multiplies in bfloat16 (lscpu: avx512_bf16, amx_bf16) trains up to twice as fast in it:
//
//   -o '{"trainer.use_amp": true, "model.bilm.precision": "bfloat16"}'
(import 'small.jsonnet') + (import 'start.libsonnet')
