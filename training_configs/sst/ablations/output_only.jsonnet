// ELMo at the output of the lowest biLSTM only: column "Output only" of Table 3. The paper has no figure for SST-5.
//
// Data and variables: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/sst/ablations/output_only.jsonnet -s runs/sst_output_only
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.placements(['output'])
