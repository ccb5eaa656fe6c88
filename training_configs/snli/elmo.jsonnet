// ESIM on SNLI with ELMo at input and output of the lowest biLSTM: row "SNLI", column "ELMo + baseline" of Table 1.
//
// Data: as in baseline.jsonnet. The biLM: by name, by its two files or by an archive; see ../lib/elmo.libsonnet.
//
//   export ELMO_SNLI_TRAIN=snli_1.0_train.jsonl ELMO_SNLI_DEV=snli_1.0_dev.jsonl ELMO_WORD_VECTORS=glove.840B.300d.txt
//   export ELMO_BILM=original     # the paper's biLM, fetched once; without this, the small one that ships
//   allennlp train training_configs/snli/elmo.jsonnet -s runs/snli_elmo
//   allennlp evaluate runs/snli_elmo/model.tar.gz snli_1.0_test.jsonl
//
// The paper: accuracy 88.7 +- 0.17 on the test set over five seeds (ELMO_SEED), and 89.3 for the ensemble of the five
// (../ensemble.jsonnet); on the dev set 88.9, and 89.5 if the biLM is tuned first (elmo_finetuned.jsonnet).
local elmo = import '../lib/elmo.libsonnet';

// "All recurrent and feed-forward weight matrices": no bias, no word vector, nothing of ELMo.
local matrices = '^(encoder|composition)\\._module\\.weight_|^(projection|classifier|output_layer)\\.(.*\\.)?weight$';

(import 'base.libsonnet') + elmo.at(['input', 'output']) + elmo.layer_norm + elmo.l2(0.001) + {
  local config = self,
  model+: {
    text_embedder+: { contextual+: { dropout: config.elmo_dropout } },
    attention_dropout: config.dropout,
    regularizer+: { regexes+: [[matrices, { type: 'l2', alpha: 0.0001 }]] },
  },
}
