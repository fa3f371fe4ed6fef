import { NO_LOGGER } from '@tributary/core';
import { openRedisProcessBoard } from '@tributary/infra';
import { describe } from 'vitest';
import { engines, freshPrefix } from '../../../helpers/engines.ts';
import { removeKeys } from '../../../helpers/redis.ts';
import { processBoardConformance } from '../suite/process-board.conformance.ts';

const prefix = freshPrefix();
const url = () => engines()?.redisUrl ?? '';

describe.skipIf(!engines())('on a real server', () =>
  processBoardConformance({
    name: 'Redis',
    open: (scope, keptMs) =>
      openRedisProcessBoard({ url: url(), prefix: `${prefix}${scope}.`, logger: NO_LOGGER, keptMs }),
    dispose: (scope) => removeKeys(url(), `${prefix}${scope}.`),
  }),
);
