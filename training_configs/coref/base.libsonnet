// End-to-end coreference on CoNLL-2012, as A.6 of the ELMo paper takes it from Lee et al. (2017): everything but
// contextual vectors.
//
// From their code: fixed word vectors, cased, of length 1, and zeros for unknown words; a character CNN of 50 filters
// of each of the widths 3, 4 and 5 over 8-d characters; a biLSTM of 200 units in each direction with coupled gates,
// learnt first states and recurrent dropout; feed-forwards of 2 x 150; 20-d features; spans of up to 10 words, 0.4 of
// them kept a word, 250 antecedents; dropout 0.5 on what goes into the biLSTM and 0.2 elsewhere; Glorot's
// initialisation; Adam at 0.001, times 0.999 every 100 steps; gradient norm 5; one document per step, cut to 50
// sentences. What differs is listed in the model's docstring.
//
// Their word vectors are GloVe's of 300 dimensions, ELMO_WORD_VECTORS, beside Turian et al.'s of 50,
// ELMO_TURIAN_VECTORS; either may be left out. They train about 400,000 steps, here written as epochs with early
// stopping.
local data = import '../lib/data.libsonnet';
local trainer = import '../lib/trainer.libsonnet';
local words = import '../lib/words.libsonnet';

trainer.experiment({
  local config = self,

  // The knobs.
  word_dim:: 300,
  character_dim:: 8,
  num_filters:: 50,
  filter_widths:: [3, 4, 5],
  encoder_dim:: 200,
  hidden_dim:: 150,
  feature_dim:: 20,
  lexical_dropout:: 0.5,
  dropout:: 0.2,
  num_epochs:: 150,
  learning_rate:: 0.001,

  dataset_reader: {
    type: 'elmo::coref',
    token_indexers: {
      tokens: words.indexer(lowercase=false),
      // AllenNLP's CNN skips filters that reach into the padding: without marks at both ends, words of one and
      // two characters would all look the same.
      token_characters: words.character_indexer(std.foldl(std.max, config.filter_widths, 0)) {
        character_tokenizer: { start_tokens: ['<w>'], end_tokens: ['</w>'] },
      },
    } + words.turian.indexers,
  },
  train_data_path: data.path('ELMO_COREF_TRAIN'),
  validation_data_path: data.path('ELMO_COREF_DEV'),
  model: {
    type: 'elmo::coref',
    text_embedder: {
      words: {
        token_embedders: {
          tokens: words.vectors(config.word_dim, trainable=false) + words.scaled,
          token_characters: words.character_cnn(config.character_dim, config.num_filters, config.filter_widths),
        } + { [name]: words.turian.embedders[name] + words.scaled for name in std.objectFields(words.turian.embedders) },
      },
    },
    encoder: { type: 'elmo::coupled_lstm', hidden_size: config.encoder_dim, recurrent_dropout: config.dropout },
    hidden_dim: config.hidden_dim,
    num_hidden_layers: 2,
    feature_dim: config.feature_dim,
    max_span_width: 10,
    spans_per_word: 0.4,
    max_antecedents: 250,
    max_training_sentences: 50,
    lexical_dropout: config.lexical_dropout,
    dropout: config.dropout,
    initializer: {
      regexes: [
        ['(width|distance|speaker|genre)_embedding\\.weight|head_scorer\\.weight|conv_layer.*weight', 'xavier_uniform'],
      ],
    },
  },
  data_loader: { batch_size: 1, shuffle: true },
  trainer: trainer.resumable {
    optimizer: { type: 'adam', lr: config.learning_rate },
    learning_rate_scheduler: { type: 'elmo::staircase', factor: 0.999, num_steps: 100 },
    grad_norm: 5.0,
    num_epochs: config.num_epochs,
    patience: 10,
    validation_metric: '+f1',
  },
})
