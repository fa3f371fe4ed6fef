import { Accordion, Group, PasswordInput, Select, Stack, Switch, Text, TextInput } from '@mantine/core';
import type { UseFormReturnType } from '@mantine/form';
import type { Source } from './queries.ts';

type Webhook = NonNullable<Source['webhook']>;
type Kind = Webhook['kind'];

/** Where a payload says something: a JSON pointer into it, or the name of a header. */
const PLACES = ['message_id', 'event', 'user_id', 'anonymous_id', 'timestamp'] as const;
type Place = (typeof PLACES)[number];

/** The webhook of a source in its form; `webhook_kind` is empty for a source that receives none. */
export interface WebhookValues extends Readonly<Record<Place, string>> {
  readonly webhook_kind: Kind | '';
  /** A new one; empty: those that are stored stay. */
  readonly secret: string;
  readonly keeps_secret: boolean;
  readonly hmac_header: string;
  readonly hmac_algorithm: string;
  readonly hmac_encoding: string;
  readonly hmac_prefix: string;
}

/** Stands for a stored secret. */
const MASK = '********';

export function webhookValuesOf(webhook: Webhook | null | undefined): WebhookValues {
  const hmac = webhook?.hmac;
  return {
    webhook_kind: webhook?.kind ?? '',
    secret: '',
    keeps_secret: true,
    hmac_header: hmac?.header ?? 'X-Signature',
    hmac_algorithm: hmac?.algorithm ?? 'sha256',
    hmac_encoding: hmac?.encoding ?? 'hex',
    hmac_prefix: hmac?.prefix ?? '',
    message_id: webhook?.message_id ?? '',
    event: webhook?.event ?? '',
    user_id: webhook?.user_id ?? '',
    anonymous_id: webhook?.anonymous_id ?? '',
    timestamp: webhook?.timestamp ?? '',
  };
}

/** `stored`: how many secrets of this kind are stored. */
export function webhookOf(values: WebhookValues, stored: number) {
  const { webhook_kind: kind, hmac_header, hmac_algorithm, hmac_encoding, hmac_prefix } = values;
  if (kind === '') return null;
  const hmac = {
    header: hmac_header,
    algorithm: hmac_algorithm as 'sha256',
    encoding: hmac_encoding as 'hex',
    prefix: hmac_prefix,
  };
  return {
    kind,
    secrets: kind === 'none' ? [] : secretsOf(values, stored),
    hmac: kind === 'hmac' ? hmac : null,
    ...(Object.fromEntries(PLACES.map((place) => [place, values[place] || null])) as Record<
      Place,
      string | null
    >),
  };
}

/** Null: those that are stored stay. The first mask stands for the first stored secret. */
function secretsOf({ secret, keeps_secret }: WebhookValues, stored: number): string[] | null {
  const kept = keeps_secret && stored > 0 ? [MASK] : [];
  if (secret !== '') return [secret, ...kept];
  return stored > 1 && !keeps_secret ? [MASK] : null;
}

/** The field of the form for a path of the body. */
export function webhookFieldOf(path: string): string {
  const [first, second = '', third = ''] = path.split('.');
  if (first !== 'webhook') return path;
  if (second === 'secrets') return 'secret';
  if (second === 'kind') return 'webhook_kind';
  return second === 'hmac' ? `hmac_${third || 'header'}` : second;
}

export const WEBHOOK_KINDS: Readonly<Record<Kind, string>> = {
  github: 'GitHub',
  stripe: 'Stripe',
  shopify: 'Shopify',
  standard: 'Standard Webhooks',
  hmac: 'Another service that signs (HMAC)',
  none: 'Another service, without a signature',
};

const SECRETS: Readonly<Record<Exclude<Kind, 'none'>, string>> = {
  github: 'The one that you enter as “Secret” of the webhook at GitHub.',
  stripe: 'Stripe shows it as “Signing secret” of the endpoint: it begins with whsec_.',
  shopify: 'Shopify shows it where webhooks are made, or as client secret of the app.',
  standard: 'The service shows it: it begins with whsec_.',
  hmac: 'The key with which the service signs the body.',
};

const LABELS: Readonly<Record<Place, string>> = {
  message_id: 'Id',
  event: 'Name of the event',
  user_id: 'User id',
  anonymous_id: 'Anonymous id',
  timestamp: 'Time',
};

interface Props<V extends WebhookValues> {
  readonly form: UseFormReturnType<V>;
  /** How many secrets of this kind are stored. */
  readonly stored: number;
  readonly onKind: (kind: Kind | '') => void;
}

/** Whose webhooks a source receives, how these are verified, and where they say what an event needs. */
export function WebhookFields<V extends WebhookValues>({ form, stored, onKind }: Props<V>) {
  const { webhook_kind: kind, secret } = form.getValues();
  const input = (name: keyof WebhookValues, options?: { readonly type: 'checkbox' }) =>
    form.getInputProps(name, options);
  return (
    <>
      <Select
        label="Receives webhooks of"
        description="A service without an SDK sends its webhooks to an address; each is an event."
        placeholder="None: it sends with a write key"
        clearable
        data={Object.entries(WEBHOOK_KINDS).map(([value, label]) => ({ value, label }))}
        {...input('webhook_kind')}
        value={kind === '' ? null : kind}
        onChange={(next) => onKind((next ?? '') as Kind | '')}
      />
      {kind === 'none' && (
        <Text size="sm" c="dimmed">
          Nothing is verified: whoever knows the address can send.
        </Text>
      )}
      {kind !== '' && kind !== 'none' && (
        <>
          <PasswordInput
            label="Secret"
            description={SECRETS[kind]}
            withAsterisk={stored === 0}
            placeholder={stored > 0 ? 'Stored. Type to replace it.' : undefined}
            autoComplete="new-password"
            {...input('secret')}
          />
          {stored > 0 && (secret !== '' || stored > 1) && (
            <Switch
              label="Accept the secret before it too"
              description="For as long as requests signed with it may arrive. Switch it off later."
              {...input('keeps_secret', { type: 'checkbox' })}
            />
          )}
        </>
      )}
      {kind === 'hmac' && (
        <Stack gap="sm">
          <TextInput label="Header of the signature" withAsterisk {...input('hmac_header')} />
          <Group grow align="flex-start">
            <Select
              label="Hash"
              allowDeselect={false}
              data={['sha1', 'sha256', 'sha512']}
              {...input('hmac_algorithm')}
            />
            <Select
              label="Written in"
              allowDeselect={false}
              data={['hex', 'base64']}
              {...input('hmac_encoding')}
            />
          </Group>
          <TextInput
            label="Before the signature"
            description="What the header has before it, such as sha256="
            {...input('hmac_prefix')}
          />
        </Stack>
      )}
      {kind !== '' && (
        <Accordion variant="contained">
          <Accordion.Item value="places">
            <Accordion.Control>Fields of the payload</Accordion.Control>
            <Accordion.Panel>
              <Stack gap="sm">
                <Text size="sm" c="dimmed">
                  A JSON pointer into the payload, such as /customer/id, or the name of a header. Empty: as
                  the service has it.
                </Text>
                {PLACES.map((place) => (
                  <TextInput key={place} label={LABELS[place]} autoComplete="off" {...input(place)} />
                ))}
              </Stack>
            </Accordion.Panel>
          </Accordion.Item>
        </Accordion>
      )}
    </>
  );
}
