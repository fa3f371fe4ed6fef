import { afterAll, beforeAll, describe } from 'vitest';
import { anyOrder } from './any-order.ts';
import { crashes } from './crashes.ts';
import { crowds } from './crowds.ts';
import { deleting } from './deleting.ts';
import { type ProfileStoreHarness, RETENTION_MS } from './harness.ts';
import { lifetime } from './lifetime.ts';
import { peopleApart } from './people-apart.ts';
import { publishing } from './publishing.ts';
import { scopes } from './scopes.ts';
import { spelling } from './spelling.ts';
import { splitting } from './splitting.ts';
import { Stage } from './stage.ts';
import { together } from './together.ts';
import { unlinking } from './unlinking.ts';
import { writing } from './writing.ts';

/** The contract of the `ProfileStore` port. */
export function profileStoreConformance(harness: ProfileStoreHarness): void {
  describe(`the ${harness.name} profile store`, () => {
    const stage = new Stage(harness);
    beforeAll(() => stage.set(RETENTION_MS));
    afterAll(() => stage.strike());

    writing(stage);
    scopes(stage);
    peopleApart(stage);
    deleting(stage);
    unlinking(stage);
    splitting(stage);
    spelling(stage);
    crowds(stage);
    publishing(stage);
    together(stage);
    anyOrder(stage);
    lifetime(stage);
    crashes(stage);
  });
}
