import { Badge, Group, Paper, SimpleGrid, Stack, Text, TextInput, Title } from '@mantine/core';
import { MagnifyingGlassIcon } from '@radix-ui/react-icons';
import { useState } from 'react';
import { firstSentence } from '../../shared/markdown.ts';
import type { DestinationType } from './queries.ts';

interface Props {
  readonly types: readonly DestinationType[];
  readonly q: string;
  readonly onSearch: (q: string) => void;
  readonly onChoose: (type: string) => void;
}

/** Every kind of destination with its description. */
export function KindPicker({ types, q, onSearch, onChoose }: Props) {
  const [text, setText] = useState(q);
  const words = text.toLowerCase().split(/\s+/);
  const found = types.filter((type) => {
    const all = `${type.title} ${type.type} ${type.description}`.toLowerCase();
    return words.every((word) => all.includes(word));
  });
  const groups = [
    {
      title: 'Databases, streams and webhooks',
      kinds: found.filter(({ actions, warehouse }) => actions.length === 0 && !warehouse),
    },
    {
      title: 'Warehouses: tables of all events, to be queried',
      kinds: found.filter(({ warehouse }) => warehouse),
    },
    {
      title: 'Services, by Segment’s pack of actions',
      kinds: found.filter(({ actions }) => actions.length > 0),
    },
  ];
  return (
    <Stack gap="lg">
      <TextInput
        aria-label="Find a kind"
        placeholder="Find a kind"
        maw={360}
        leftSection={<MagnifyingGlassIcon aria-hidden />}
        value={text}
        onChange={({ currentTarget }) => setText(currentTarget.value)}
        onBlur={() => text !== q && onSearch(text)}
      />
      {found.length === 0 && <Text c="dimmed">No kind matches.</Text>}
      {groups.map(
        ({ title, kinds }) =>
          kinds.length > 0 && (
            <Stack key={title} gap="sm" component="section" aria-label={title}>
              <Title order={2} size="h5">
                {title}
              </Title>
              <SimpleGrid cols={{ base: 1, xs: 2, md: 3 }}>
                {kinds.map((type) => (
                  <Kind key={type.type} type={type} onChoose={onChoose} />
                ))}
              </SimpleGrid>
            </Stack>
          ),
      )}
    </Stack>
  );
}

interface KindProps {
  readonly type: DestinationType;
  readonly onChoose: (type: string) => void;
}

function Kind({ type, onChoose }: KindProps) {
  return (
    <Paper component="button" type="button" ta="left" withBorder p="md" onClick={() => onChoose(type.type)}>
      <Stack gap={6} h="100%">
        <Text fw={600}>{type.title}</Text>
        <Text size="sm" c="dimmed" lineClamp={3}>
          {firstSentence(type.description)}
        </Text>
        <Group gap={6} mt="auto">
          <Badge variant="default" tt="none" fw={400}>
            {type.warehouse
              ? 'loaded at intervals'
              : type.max_batch > 1
                ? `up to ${type.max_batch.toLocaleString('en')} a request`
                : 'one a request'}
          </Badge>
        </Group>
      </Stack>
    </Paper>
  );
}
