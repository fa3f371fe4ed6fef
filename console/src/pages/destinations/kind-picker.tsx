import {
  Avatar,
  Badge,
  Flex,
  Group,
  Paper,
  Select,
  SimpleGrid,
  Stack,
  Text,
  TextInput,
  Title,
} from '@mantine/core';
import { CheckIcon, MagnifyingGlassIcon } from '@radix-ui/react-icons';
import { useDeferredValue, useMemo, useState } from 'react';
import { plural } from '../../shared/quantities.ts';
import type { DestinationType } from './queries.ts';
import type { NewDestinationSearch } from './search.ts';

interface Props {
  readonly types: readonly DestinationType[];
  readonly search: NewDestinationSearch;
  readonly onSearch: (search: NewDestinationSearch) => void;
  readonly onChoose: (type: string) => void;
}

const OWN = 'Databases, streams and webhooks';
const WAREHOUSES = 'Warehouses';

function categoryOf({ warehouse, category }: DestinationType): string {
  return warehouse ? WAREHOUSES : (category ?? OWN);
}

/** Every kind of destination with its description: those of Tributary first, then services by category. */
export function KindPicker({ types, search, onSearch, onChoose }: Props) {
  const { q = '', category = null } = search;
  const [text, setText] = useState(q);
  const wanted = useDeferredValue(text);
  const kinds = useMemo(
    () =>
      types.map((type) => {
        const words = `${type.title} ${type.type} ${categoryOf(type)} ${type.summary}`.toLowerCase();
        return { type, words };
      }),
    [types],
  );
  const categories = useMemo(() => {
    const services = types.map(categoryOf).filter((one) => one !== OWN && one !== WAREHOUSES);
    return [OWN, WAREHOUSES, ...[...new Set(services)].sort()];
  }, [types]);
  const words = wanted.toLowerCase().split(/\s+/);
  const found = kinds.filter(
    (kind) =>
      (category === null || categoryOf(kind.type) === category) &&
      words.every((word) => kind.words.includes(word)),
  );
  const { type: _, ...filters } = search;
  return (
    <Stack gap="lg">
      <Flex direction={{ base: 'column', xs: 'row' }} gap="sm" align={{ xs: 'center' }}>
        <TextInput
          aria-label="Find a kind"
          placeholder="Find a kind"
          w={{ base: '100%', xs: 320 }}
          leftSection={<MagnifyingGlassIcon aria-hidden />}
          value={text}
          onChange={({ currentTarget }) => setText(currentTarget.value)}
          onBlur={() => text !== q && onSearch(withoutEmpty({ ...filters, q: text }))}
        />
        <Select
          aria-label="Category"
          placeholder="All categories"
          clearable
          w={{ base: '100%', xs: 280 }}
          data={categories}
          value={category}
          onChange={(next) => onSearch(withoutEmpty({ q: text, category: next ?? '' }))}
        />
        <Text size="sm" c="dimmed" role="status">
          {found.length === types.length
            ? plural(found.length, 'kind')
            : `${found.length} of ${plural(types.length, 'kind')}`}
        </Text>
      </Flex>
      {found.length === 0 && <Text c="dimmed">No kind matches.</Text>}
      {categories.map((title) => {
        const inside = found.filter((kind) => categoryOf(kind.type) === title);
        return (
          inside.length > 0 && (
            <Stack key={title} gap="sm" component="section" aria-label={title}>
              <Title order={2} size="h5">
                {title}
              </Title>
              <SimpleGrid cols={{ base: 1, xs: 2, md: 3 }}>
                {inside.map(({ type }) => (
                  <Kind key={type.type} type={type} onChoose={onChoose} />
                ))}
              </SimpleGrid>
            </Stack>
          )
        );
      })}
    </Stack>
  );
}

function withoutEmpty({ q = '', category = '' }: NewDestinationSearch): NewDestinationSearch {
  return { ...(q && { q }), ...(category && { category }) };
}

interface KindProps {
  readonly type: DestinationType;
  readonly onChoose: (type: string) => void;
}

function Kind({ type, onChoose }: KindProps) {
  return (
    <Paper component="button" type="button" ta="left" withBorder p="md" onClick={() => onChoose(type.type)}>
      <Group gap="sm" wrap="nowrap" align="flex-start" h="100%">
        <Avatar
          name={type.title.replaceAll(/[^\p{L}\p{N} ]/gu, '')}
          color="initials"
          radius="sm"
          size={36}
          aria-hidden
          alt=""
        />
        <Stack gap={6} h="100%" miw={0} flex={1}>
          <Text fw={600}>{type.title}</Text>
          <Text size="sm" c="dimmed" lineClamp={3}>
            {type.summary}
          </Text>
          <Group gap={6} mt="auto">
            {(type.warehouse || type.max_batch > 1) && (
              <Badge variant="default" tt="none" fw={400}>
                {type.warehouse
                  ? 'loaded at intervals'
                  : `up to ${type.max_batch.toLocaleString('en')} a request`}
              </Badge>
            )}
            {type.compared !== null && (
              <Badge
                variant="default"
                tt="none"
                fw={400}
                leftSection={<CheckIcon aria-hidden />}
                title={`Its requests were compared with the document of the vendor on ${type.compared}; the reference lists the differences.`}
              >
                compared with its document
              </Badge>
            )}
          </Group>
        </Stack>
      </Group>
    </Paper>
  );
}
