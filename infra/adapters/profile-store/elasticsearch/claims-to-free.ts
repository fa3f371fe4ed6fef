import { messageOf, type Profile } from '@tributary/core';
import { type Claim, type Content, claimId, claimOf } from './document-forms.ts';
import type { StoreTools } from './store-tools.ts';

/**
 * Claims of identities that a profile loses. They are read before the profile is written: a writer that lets one of them
 * lead somewhere else, or back, writes it after that, and then it is not removed.
 */
export class ClaimsToFree {
  readonly #claims: readonly { readonly claim: string; readonly before: Claim }[];
  readonly #tools: StoreTools;

  private constructor(
    claims: readonly { readonly claim: string; readonly before: Claim }[],
    tools: StoreTools,
  ) {
    this.#claims = claims;
    this.#tools = tools;
  }

  static async read(claims: readonly string[], tools: StoreTools): Promise<ClaimsToFree> {
    // Nearly every write loses none.
    const stored = claims.length === 0 ? [] : await tools.documents.read(claims.map(claimId));
    const found = claims.flatMap((claim, at) => {
      const one = stored[at];
      return one === undefined ? [] : [{ claim, before: claimOf(one) }];
    });
    for (const claim of claims) tools.hints.delete(claim);
    return new ClaimsToFree(found, tools);
  }

  /**
   * The profile, without the identities, is written: the claims are removed beside other work, so that its deletion says
   * nothing of them. When an identity was deleted is known by where its claim leads, so that claim stays. A claim that
   * stays is one that nobody believes.
   */
  free(profile: Profile, deletions: Content['deletions']): void {
    const { hints, background } = this.#tools;
    const ucids = new Set([profile.ucid, ...profile.linked]);
    const free = this.#claims.filter(({ claim, before }) => {
      hints.delete(claim);
      return ucids.has(before.ucid) && before.deletedAt === 0 && deletions[claim] === undefined;
    });
    if (free.length > 0) background(this.#remove(free));
  }

  async #remove(claims: readonly { readonly claim: string; readonly before: Claim }[]): Promise<void> {
    const { documents, logger } = this.#tools;
    try {
      await documents.write(
        claims.map(({ claim, before }) => ({
          id: claimId(claim),
          expected: before.stored.version,
          source: 'removed' as const,
        })),
      );
    } catch (error) {
      logger.debug({ error: messageOf(error) }, 'claims of lost identities stay');
    }
  }
}
