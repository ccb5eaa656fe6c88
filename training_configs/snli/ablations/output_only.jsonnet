// ESIM on SNLI with ELMo at the output of the lowest biLSTM only: column "Output Only" of Table 3.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/snli/ablations/output_only.jsonnet -s runs/snli_output_only
//
// The paper: dev accuracy 88.7, against 89.5 with both placements.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.placements(['output'])
