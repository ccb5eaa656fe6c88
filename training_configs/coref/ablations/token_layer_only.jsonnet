// Coreference on CoNLL-2012 with the biLM's context-independent layer in place of word vectors and characters: Table 7
// of the camera-ready paper, for this task.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/coref/ablations/token_layer_only.jsonnet -s runs/coref_token_layer_only
//
// The paper: no figure for this task; the table is on SQuAD, SNLI and SRL.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.token_layer_only + elmo.without_word_vectors
