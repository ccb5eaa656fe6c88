// Coreference on CoNLL-2012 with the top layer of the biLM only, and without ELMo's scale gamma (A.2).
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train \
//     training_configs/coref/ablations/top_layer_only_gamma_off.jsonnet -s runs/coref_top_layer_only_gamma_off
//
// The paper: no figure for this task; A.2 finds SNLI well below its baseline.
local elmo = import '../../lib/elmo.libsonnet';

(import 'top_layer_only.jsonnet') + elmo.gamma_off
