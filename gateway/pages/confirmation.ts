import { CONFIRMATION_PATH, type ConfirmationClaim, withConfirmed } from '@tributary/core';
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import type { GatewayDependencies } from '../dependencies.ts';
import { unavailable } from '../errors/api-error.ts';
import { proposeAs } from '../resources/catalog-entities.ts';
import { contentSecurityPolicy } from './console.ts';

type ConfirmationOptions = Pick<GatewayDependencies, 'catalog' | 'changeLimits' | 'clock' | 'confirmationOf'>;

const HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'content-security-policy': contentSecurityPolicy({
    'form-action': ["'self'"],
    'frame-ancestors': ["'none'"],
  }),
} as const;

const FORM = 'application/x-www-form-urlencoded';
const MAX_BODY_BYTES = 1024;
/** Other changes of the organization that may come in between. */
const ATTEMPTS = 5;

/**
 * The page of the link in a mail that confirms its address. `GET` changes nothing, as mail scanners open links; its form
 * confirms by `POST`. The token in the query is the credential, so both are without authentication.
 */
export const confirmationRoutes: FastifyPluginAsync<ConfirmationOptions> = async (app, dependencies) => {
  const hidden = { schema: { hide: true } };
  const send = (reply: FastifyReply, status: number, html: string) =>
    reply.code(status).headers(HEADERS).send(html);
  const claimOf = ({ query }: FastifyRequest): ConfirmationClaim | undefined => {
    const { token } = query as { readonly token?: unknown };
    return typeof token === 'string' ? dependencies.confirmationOf(token) : undefined;
  };
  const organizationOf = ({ organizationId }: ConfirmationClaim) =>
    dependencies.catalog.state.organization(organizationId)?.name ?? '';

  // The form sends no fields.
  app.addContentTypeParser(FORM, { parseAs: 'string', bodyLimit: MAX_BODY_BYTES }, (_request, _body, done) =>
    done(null, undefined),
  );

  app.get(CONFIRMATION_PATH, hidden, async (request, reply) => {
    const claim = claimOf(request);
    if (claim === undefined) return send(reply, 400, INVALID);
    const text = `Send notices of ${organizationOf(claim)} to ${claim.email}?`;
    return send(reply, 200, page('Confirm an address', text, CONFIRM));
  });

  app.post(CONFIRMATION_PATH, hidden, async (request, reply) => {
    const claim = claimOf(request);
    if (claim === undefined) return send(reply, 400, INVALID);
    await confirm(claim, request);
    const text = `Notices of ${organizationOf(claim)} are sent to ${claim.email} from now on, as long as the address is set there.`;
    return send(reply, 200, page('Address confirmed', text));
  });

  /** Nothing to do where the address is confirmed already, or is not set any more. */
  async function confirm(
    { id, organizationId, email }: ConfirmationClaim,
    request: FastifyRequest,
  ): Promise<void> {
    const { catalog } = dependencies;
    const from = { address: request.clientAddress.text, request_id: request.id };
    const proposer = { by: `link:${id}`, from, account: organizationId, scope: organizationId };
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const organization = catalog.state.organization(organizationId);
      const confirmed_addresses = withConfirmed(catalog.state, organizationId, email);
      if (organization === undefined || confirmed_addresses === undefined) return;
      const { name, regions, notification_email, version } = organization;
      const refused = await proposeAs(proposer, dependencies, {
        type: 'organization.updated',
        entity: organizationId,
        expected_version: version,
        data: { name, regions, notification_email, confirmed_addresses },
      });
      if (refused === undefined) return;
    }
    throw unavailable();
  }
};

const CONFIRM = '<form method="post"><button>Confirm</button></form>';

const INVALID = page(
  'This link is not valid',
  'It has expired, or is not complete. The members of the organization can send another one from the page that shows the address.',
);

function page(title: string, text: string, form = ''): string {
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title} - Tributary</title></head>
<body><main><h1>${title}</h1><p>${escaped(text)}</p>${form}</main></body>
</html>
`;
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? character);
}
