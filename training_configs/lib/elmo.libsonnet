// ELMo as mixins: each adds to an experiment what ELMo needs, and nothing else.
//
//   (import 'base.libsonnet') + elmo.at(['input', 'output']) + elmo.l2(0.001)
local settings = import 'settings.libsonnet';

// A change to the contextual embedder alone.
local contextual(change) = { model+: { text_embedder+: { contextual+: change } } };

{
  // The biLM of the experiments: a name, a folder, an archive or a URL. By default it is the one that ships with the
  // plugin.
  bilm:: { type: 'pretrained', name: settings.string('ELMO_BILM') },

  // ELMo at the given placements, with separate weights at each.
  at(placements):: {
    dataset_reader+: { token_indexers+: { elmo: { type: 'elmo::characters' } } },
  } + contextual({ type: 'elmo', bilm: $.bilm, placements: placements }),

  // lambda * ||w||^2 on the layer weights of every mix; gamma isn't touched.
  l2(lambda):: {
    model+: {
      regularizer+: { regexes+: [['scalar_parameters', { type: 'l2', alpha: lambda }]] },
    },
  },

  layer_norm:: contextual({ layer_norm: true }),
  dropout(p):: contextual({ dropout: p }),

  // Where a frozen biLM's layers are kept from epoch to epoch; a quarter of the RAM without it. elmo.cache({ megabytes:
  // 4000, float16: true }), elmo.cache({ type: 'disk', path: '/data/cache', megabytes: 40000 }) or elmo.cache('none').
  cache(store):: contextual({ cache: store }),

  // The biLM tuned on the task's own text first (A.1), from the archive in ELMO_FINETUNED_ARCHIVE.
  finetuned:: contextual({
    bilm: { type: 'archive', archive_file: settings.required('ELMO_FINETUNED_ARCHIVE') },
  }),

  // For ablations.
  top_layer_only:: contextual({ layers: 'top' }),
  token_layer_only:: contextual({ layers: 'tokens' }),
  gamma_off:: contextual({ gamma: false }),
  placements(names):: contextual({ placements: names }),
  // The given lambda, replacing any earlier one.
  lambda(lambda):: {
    model+: {
      regularizer+: {
        regexes: [pair for pair in (if 'regexes' in super then super.regexes else []) if pair[0] != 'scalar_parameters']
                 + [['scalar_parameters', { type: 'l2', alpha: lambda }]],
      },
    },
  },
  // A character CNN stays where there is one.
  without_word_vectors:: {
    local others(parts) = { [name]: parts[name] for name in std.objectFields(parts) if !std.member(['tokens', 'turian'], name) },
    dataset_reader+: { local indexers = super.token_indexers, token_indexers: others(indexers) },
    model+: {
      local embedders = others(super.text_embedder.words.token_embedders),
      text_embedder+: if embedders == {} then { words:: null } else { words+: { token_embedders: embedders } },
    },
  },
}
