// ESIM on SNLI with ELMo at the input of the lowest biLSTM only: column "Input Only" of Table 3.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/snli/ablations/input_only.jsonnet -s runs/snli_input_only
//
// The paper: dev accuracy 88.9, against 89.5 with both placements.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.placements(['input'])
