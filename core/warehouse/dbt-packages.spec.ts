import { expect, it } from 'vitest';
import type { CanonicalEvent } from '../event/event.ts';
import type { ColumnType } from '../ports/warehouse.ts';
import { ModelWarehouse, track } from './model-warehouse.fixture.ts';

/** The context of browsers: what the SDKs of Segment and RudderStack have in common, and a session of RudderStack's. */
const CONTEXT = {
  ip: '203.0.113.7',
  userAgent: 'Mozilla/5.0 (iPhone; CPU iPhone OS 17_1 like Mac OS X)',
  locale: 'en-GB',
  library: { name: 'analytics.js', version: '1.84.3' },
  page: {
    path: '/tea',
    referrer: 'https://search.example.com/',
    referring_domain: 'search.example.com',
    search: '?utm_source=mail',
    title: 'Tea',
    url: 'https://shop.example.com/tea?utm_source=mail',
  },
  campaign: { name: 'spring', source: 'mail', medium: 'email', term: 'tea', content: 'a' },
  screen: { width: 1280, height: 1024 },
  sessionId: 1_767_323_045_000,
  traits: { email: 'ann@example.com' },
};

type Columns = Readonly<Record<string, ColumnType>>;
const PEOPLE: Columns = { anonymous_id: 'text', user_id: 'text' };
const REPORTED: Columns = {
  anonymous_id: 'text',
  timestamp: 'timestamp',
  context_session_id: 'bigint',
  context_page_referrer: 'text',
  context_page_referring_domain: 'text',
  context_campaign_source: 'text',
  context_campaign_medium: 'text',
  context_screen_height: 'bigint',
  context_screen_width: 'bigint',
};

/** The columns that public dbt packages read, in the state of the day of their newest commit. Read on 2026-11-30. */
const READ: readonly (readonly [title: string, tables: Readonly<Record<string, Columns>>])[] = [
  [
    'dbt-labs/segment 0.7.0 of 2024-12-04, fleetio/dbt-segment 0.7.0 of 2024-07-30',
    {
      pages: {
        ...PEOPLE,
        id: 'text',
        received_at: 'timestamp',
        sent_at: 'timestamp',
        timestamp: 'timestamp',
        url: 'text',
        path: 'text',
        title: 'text',
        search: 'text',
        referrer: 'text',
        context_campaign_source: 'text',
        context_campaign_medium: 'text',
        context_campaign_name: 'text',
        context_campaign_term: 'text',
        context_campaign_content: 'text',
        context_ip: 'text',
        context_user_agent: 'text',
      },
    },
  ],
  [
    'rudderlabs/dbt-id-stitching 1.1.2 of 2023-08-24',
    { identifies: { ...PEOPLE, email: 'text', context_traits_email: 'text' } },
  ],
  [
    'rudderlabs/dbt-sessionization 1.0.0 of 2022-07-27',
    { tracks: { ...PEOPLE, id: 'text', event: 'text', timestamp: 'timestamp' } },
  ],
  ['rudderlabs/dbt-id-resolution 1.0.0 of 2022-01-15', { identifies: { ...PEOPLE, sent_at: 'timestamp' } }],
  [
    'rudderlabs/rudder-event-analytics 1.0.0 of 2023-08-22',
    { tracks: REPORTED, pages: REPORTED, identifies: REPORTED },
  ],
];

it.each(READ)('the tables of events of a browser have what %s reads', (_title, tables) => {
  const warehouse = new ModelWarehouse();
  const { event: _, properties: __, ...common } = track('', {}, { anonymous_id: 'a-1', context: CONTEXT });
  warehouse.load([
    track('Tea Poured', { cups: 2 }, { anonymous_id: 'a-1', context: CONTEXT }),
    { ...common, type: 'page', properties: CONTEXT.page } as CanonicalEvent,
    { ...common, type: 'identify', traits: { email: 'ann@example.com' } } as CanonicalEvent,
  ]);
  for (const [table, columns] of Object.entries(tables))
    expect(Object.fromEntries(warehouse.columns.get(table) ?? []), table).toMatchObject(columns);
});
