// BiDAF with self-attention on SQuAD with ELMo, where the end of an answer hears of its start, as in Clark and Gardner
// (2018) and in the ELMo paper's code; A.4 has two linear layers.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/squad/ablations/chained_heads.jsonnet -s runs/squad_chained_heads
//
// The paper has no result of its own for either.
(import '../elmo.jsonnet') + {
  local config = self,
  model+: { heads: { type: 'chained', encoder: config.bigru } },
}
